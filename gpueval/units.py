"""Numbers as text for people; everywhere else a number keeps its unit in its name."""

from __future__ import annotations


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
