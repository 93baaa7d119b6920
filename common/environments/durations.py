"""Durations in words, alone and as a sum with its parts. Standard library only: the noxfile's modules use it."""

from collections.abc import Mapping


def in_words(seconds: float) -> str:
    """Return a duration as `4.2 s`, `42 s`, `2 min 45 s` or `5 h 33 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 120:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def with_parts(seconds: Mapping[str, float]) -> str:
    """Return the sum of `seconds` and its parts by their names, such as `50 s: downloading 4.2 s, installing 46 s`."""
    parts = ", ".join(f"{name} {in_words(part)}" for name, part in seconds.items())
    return in_words(sum(seconds.values())) + (f": {parts}" if parts else "")
