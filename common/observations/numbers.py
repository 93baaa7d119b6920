"""How numbers are written in tables, the same on the terminal and in reports."""

import math
from collections.abc import Callable

DASH = "\N{EN DASH}"
"""Stands where a number doesn't exist."""

DAGGER = "\N{DAGGER}"
"""Stands where there are more threads than cores."""

MINUS = "\N{MINUS SIGN}"


def number(value: float) -> str:
    """Three or four significant digits, without an exponent."""
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "\N{INFINITY}"
    digits = 0 if abs(value) >= 1000 else max(0, 3 - math.floor(math.log10(abs(value))) - 1) if value else 0
    return fixed(value, digits)


def fixed(value: float, digits: int) -> str:
    """So many digits after the point, with a true minus."""
    # Adding 0 makes a plain zero of one that was rounded from below.
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", MINUS)


def ratio(value: float) -> str:
    """Two digits after the point."""
    return DASH if math.isnan(value) else f"{value:.2f}"


def interval(low: float, high: float, write: Callable[[float], str] = ratio) -> str:
    """The ends of an interval, such as `1.92 to 2.08`, or a dash where they are NaN."""
    return DASH if math.isnan(low) else f"{write(low)} to {write(high)}"


def short(value: float) -> str:
    """A number as it stands at a tick: thousands as `1 k`."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1000 else f"{value:g}".replace("e-0", "e-")


def bandwidth(bits_per_second: float) -> str:
    """Such as `2.5 Gbit/s`, or `100 Mbit/s`."""
    unit, name = (1e9, "Gbit/s") if bits_per_second >= 1e9 else (1e6, "Mbit/s")
    return f"{bits_per_second / unit:.4g} {name}"


def link(bits_per_second: float | None, delay_seconds: float | None) -> str:
    """What limits a link, such as `100 Mbit/s, 2 ms delay`."""
    limits = [bandwidth(bits_per_second)] if bits_per_second else []
    limits += [f"{1000 * delay_seconds:g} ms delay"] if delay_seconds else []
    return ", ".join(limits) or "no limit"


def percent(value: float, digits: int = 0) -> str:
    """A share in per cent, with so many digits after the point."""
    return DASH if math.isnan(value) else f"{fixed(100 * value, digits)} %"


def signed_percent(value: float, digits: int = 0) -> str:
    """A change in per cent, with its plus or a true minus and so many digits after the point."""
    return f"{100 * value:+.{digits}f} %".replace("-", MINUS)
