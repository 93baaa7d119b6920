"""Where the repository is. Standard library only: the noxfile's modules use it."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The repository's root."""
