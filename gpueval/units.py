"""Numbers as text for people; everywhere else a number keeps its unit in its name."""

from __future__ import annotations

import re

GIB = 1 << 30
"""Bytes of a GiB."""


def duration(seconds: float) -> str:
    """Format a time: ``0.8 s``, ``42 s``, ``3 min 05 s``, ``2 h 07 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def rate(per_second: float) -> str:
    """Format a rate with three significant digits: ``0.119/s``, ``12.3/s``, ``4,500/s``."""
    if per_second >= 100:
        return f"{per_second:,.0f}/s"
    return f"{per_second:.3g}/s"


def score(value: float | None) -> str:
    """Format a score with three decimals, a dash where there is none."""
    return "–" if value is None else f"{value:.3f}"


def gib(size_bytes: float | None) -> str:
    """Format bytes as GiB (2^30) without the unit, a dash where unknown: ``39.6``, ``0.26``."""
    if size_bytes is None:
        return "–"
    value = size_bytes / GIB
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def per_second(value: float) -> str:
    """Format a number per second with three significant digits and no unit: ``7.34``, ``1,830``."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def seconds(text: str) -> float:
    """Read a time: ``90s``, ``15m``, ``8h``, ``2d``.

    Raises:
        ValueError: It is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", text.strip().lower())
    if not match:
        raise ValueError(f"'{text}' is no time; write 90s, 15m, 8h or 2d")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
