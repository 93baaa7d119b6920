"""Hosts that are namespaces of this machine, joined by shaped links, and used by programs as real hosts are."""
