"""Small pictures as SVG whose colours come from the page's style sheet, so that they follow light, dark and print.

Each is an image with a text for those who do not see it. PNG files for papers are drawn by
:mod:`gpueval.report.plots`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from math import log10, sqrt

from markupsafe import Markup

BINS = 10
CELLS = 20
SERIES = 8
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


def change(value: float | None, low: float | None, high: float | None, reach: float, told: str) -> Markup:
    """Draw a difference with its interval on a scale from ``-reach`` to ``reach``, zero in the middle."""

    def at(number: float) -> float:
        return _x(0.5 + number / (2 * reach))

    parts = [
        '<line class="track" x1="4" x2="146" y1="10" y2="10"/>',
        '<line class="zero" x1="75" x2="75" y1="2" y2="18"/>',
    ]
    if low is not None and high is not None:
        width = max(1.5, at(high) - at(low))
        parts.append(f'<rect class="interval" x="{at(low):.1f}" y="6" width="{width:.1f}" height="8" rx="2"/>')
    if value is not None:
        parts.append(f'<circle class="mean" cx="{at(value):.1f}" cy="10" r="4"/>')
    return _svg(150, 20, told, parts, "chart interval-chart")


def paired(before: Sequence[float], after: Sequence[float], told: str) -> Markup:
    """Draw samples by their two scores on a grid of :data:`CELLS`; the area of a dot is the number of samples.

    Args:
        before: (n,) scores from 0 to 1, to the right.
        after: (n,) scores, upwards: a dot above the diagonal has risen.
        told: What the picture shows, in words.
    """
    counts = Counter((round(x * CELLS), round(y * CELLS)) for x, y in zip(before, after, strict=True))
    most, size = max(counts.values(), default=1), 168.0
    parts = [
        f'<rect class="frame" x="22" y="6" width="{size}" height="{size}"/>',
        f'<line class="zero" x1="22" y1="{6 + size}" x2="{22 + size}" y2="6"/>',
        f'<text x="22" y="{size + 20}">0</text><text x="{16 + size}" y="{size + 20}">1</text>',
        f'<text x="{size / 2 + 6}" y="{size + 20}">base</text><text x="6" y="16">1</text>',
    ]
    for (x, y), n in sorted(counts.items(), key=lambda item: -item[1]):
        radius = max(1.5, 7.5 * sqrt(n / most))
        kind = "same" if x == y else "up" if y > x else "down"
        parts.append(
            f'<circle class="dot {kind}" cx="{22 + x / CELLS * size:.1f}" cy="{6 + size - y / CELLS * size:.1f}" '
            f'r="{radius:.1f}"><title>{n:,} from {x / CELLS:.2f} to {y / CELLS:.2f}</title></circle>'
        )
    return _svg(200, 194, told, parts, "chart paired")


def curves(lines: Mapping[str, Mapping[int, float]], told: str) -> Markup:
    """Draw values from 0 to 1 over depth on a logarithmic scale, one line per name; the lines differ in dashes, too.

    Args:
        lines: Value by depth, by name, in the order of the colours.
        told: What the picture shows, in words.
    """
    depths = sorted({depth for line in lines.values() for depth in line})
    reach = max(log10(max(depths, default=1)), 0.1)
    left, top, width, height = 34.0, 8.0, 350.0, 200.0

    def at(depth: int, value: float) -> str:
        return f"{left + log10(depth) / reach * width:.1f},{top + (1 - value) * height:.1f}"

    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = top + (1 - tick) * height
        parts.append(f'<line class="track" x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    shown = [depth for depth in depths if str(depth)[0] in "125" or depth == depths[-1]]
    for depth in shown:
        x = left + log10(depth) / reach * width
        parts.append(f'<text x="{x:.1f}" y="{top + height + 16}" text-anchor="middle">{depth}</text>')
    for k, (name, line) in enumerate(lines.items()):
        points = [(depth, line[depth]) for depth in sorted(line)]
        drawn = " ".join(at(*point) for point in points)
        parts.append(f'<polyline class="series series-{k % SERIES} dash-{_dash(k)}" points="{drawn}"/>')
        for depth, value in points:
            cx, cy = at(depth, value).split(",")
            hint = escape(f"{name}, first {depth}: {value:.3f}")
            parts.append(
                f'<circle class="point series-{k % SERIES}" cx="{cx}" cy="{cy}" r="3"><title>{hint}</title></circle>'
            )
    return _svg(400, 230, told, parts, "chart curves")


def sample_line(place: int) -> Markup:
    """Draw the line of a series for the key beside :func:`curves`."""
    line = f'<line class="series series-{place % SERIES} dash-{_dash(place)}" x1="0" x2="30" y1="6" y2="6"/>'
    return Markup(f'<svg class="key" viewBox="0 0 30 12" aria-hidden="true">{line}</svg>')


def _dash(place: int) -> int:
    """Choose dashes so that a colour that comes again has others."""
    return (place + place // SERIES) % 4


def _x(value: float) -> float:
    return 4 + min(1.0, max(0.0, value)) * 142


def _svg(width: float, height: float, told: str, parts: Sequence[str], kind: str) -> Markup:
    body = "".join(parts)
    return Markup(  # every part above is a number, or escaped
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(told)}">{body}</svg>'
    )
