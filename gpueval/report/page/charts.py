"""Small pictures as SVG whose colours come from the page's style sheet, so that they follow light, dark and print.

Each is an image with a text for those who do not see it. PNG files for papers are drawn by
:mod:`gpueval.report.plots`.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from markupsafe import Markup

BINS = 10
_WIDTH, _HEIGHT = 150.0, 40.0


def interval(mean: float | None, low: float | None, high: float | None, told: str) -> Markup:
    """Draw a mean between 0 and 1 with its interval."""
    parts = ['<line class="track" x1="4" x2="146" y1="10" y2="10"/>']
    for tick in (0.0, 0.5, 1.0):
        parts.append(f'<line class="track" x1="{_x(tick):.1f}" x2="{_x(tick):.1f}" y1="6" y2="14"/>')
    if low is not None and high is not None:
        width = max(1.5, _x(high) - _x(low))
        parts.append(f'<rect class="interval" x="{_x(low):.1f}" y="6" width="{width:.1f}" height="8" rx="2"/>')
    if mean is not None:
        parts.append(f'<circle class="mean" cx="{_x(mean):.1f}" cy="10" r="4"/>')
    return _svg(150, 20, told, parts, "chart interval-chart")


def histogram(counts: Sequence[int], told: str, filters: Sequence[str]) -> Markup:
    """Draw counts over equal parts of 0 to 1.

    Args:
        counts: One per part.
        told: What the picture shows, in words.
        filters: Per part what the page filters by when it is clicked.
    """
    most, width = max([1, *counts]), _WIDTH / len(counts)
    parts = [f'<line class="track" x1="0" x2="150" y1="{_HEIGHT - 0.5}" y2="{_HEIGHT - 0.5}"/>']
    for k, (count, chosen) in enumerate(zip(counts, filters, strict=True)):
        height = 0.0 if not count else max(2.0, count / most * (_HEIGHT - 4))
        at = k * width
        hint = f"{count:,} from {k / len(counts):.1f} to {(k + 1) / len(counts):.1f}"
        parts.append(
            f'<g class="bin" data-filter="{escape(chosen)}"><title>{hint}</title>'
            f'<rect class="hit" x="{at:.1f}" y="0" width="{width:.1f}" height="{_HEIGHT}"/>'
            f'<rect class="bar" x="{at + 1:.1f}" y="{_HEIGHT - 1 - height:.1f}" width="{width - 2:.1f}" '
            f'height="{height:.1f}"/></g>'
        )
    return _svg(150, 40, told, parts, "chart histogram")


def _x(value: float) -> float:
    return 4 + min(1.0, max(0.0, value)) * 142


def _svg(width: float, height: float, told: str, parts: Sequence[str], kind: str) -> Markup:
    body = "".join(parts)
    return Markup(  # every part above is a number, or escaped
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(told)}">{body}</svg>'
    )
