"""The trade-off of indexes as a picture: share of the exact result against queries per second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

from gpueval.units import per_second

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 440, 64, 130, 46, 54
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#b8a800")
"""Okabe and Ito's palette, which colour-blind readers can tell apart; each index has its own mark's label too."""
_CHARACTER = 7.5
"""Width of a character of a label."""

_Box = tuple[float, float, float, float]


def tradeoff_svg(rows: Sequence[Mapping[str, Any]], title: str) -> str:
    """Draw the rows of ``gpueval retrieve --json``; up and to the right is better.

    Args:
        rows: Each with ``index``, ``setting``, ``recall_of_exact`` and ``queries_per_s``.
        title: Heading.

    Returns:
        An SVG document without scripts or outside references.
    """
    rates = [max(row["queries_per_s"], 1e-3) for row in rows]
    low, high = floor(log10(min(rates))), ceil(log10(max(rates)))
    high = max(high, low + 1)
    least: float = min(0.9, floor(min(row["recall_of_exact"] for row in rows) * 10) / 10)

    def x(rate: float) -> float:
        return _LEFT + (log10(rate) - low) / (high - low) * float(_WIDTH - _LEFT - _RIGHT)

    def y(share: float) -> float:
        return _HEIGHT - _BOTTOM - (share - least) / (1 - least) * float(_HEIGHT - _TOP - _BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        label = per_second(10.0**power)
        parts.append(f'<text x="{at:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{label}</text>')
    for tick in range(round(least * 10), 11):
        at = y(tick / 10)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick / 10:.1f}</text>')
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">queries per second (log scale)</text>')
    turned = f'transform="translate(18 {(_TOP + _HEIGHT - _BOTTOM) / 2}) rotate(-90)"'
    parts.append(f'<text {turned} text-anchor="middle">share of the exact result</text>')
    taken: list[_Box] = []
    kinds = list(dict.fromkeys(row["index"] for row in rows))
    for kind, colour in zip(kinds, _COLOURS, strict=False):
        points = [
            (x(rate), y(row["recall_of_exact"]), row)
            for rate, row in zip(rates, rows, strict=True)
            if row["index"] == kind
        ]
        if len(points) > 1:
            line = " ".join(f"{px:.1f},{py:.1f}" for px, py, _ in points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for px, py, row in points:
            setting = "" if row["setting"] is None else f" {row['setting']}"
            told = f"{kind}{setting}: {row['recall_of_exact']:.3f} at {per_second(row['queries_per_s'])} queries/s"
            parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="5" fill="{colour}"><title>{told}</title></circle>')
            left, base = _label_place(px, py, f"{kind}{setting}", taken)
            parts.append(f'<text x="{left:.1f}" y="{base:.1f}" fill="{colour}">{kind}{setting}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _label_place(x: float, y: float, label: str, taken: list[_Box]) -> tuple[float, float]:
    """Choose a free place beside a mark, and note what it takes."""
    width = _CHARACTER * len(label)
    places = [(left, y + rise) for rise in (-7, 18, -21, 32, -35, 46) for left in (x + 8, x - 8 - width, x - width / 2)]
    boxes = [(left, base - 11, left + width, base + 3) for left, base in places]

    def free(box: _Box) -> bool:
        inside = box[0] > _LEFT and box[2] < _WIDTH and box[1] > _TOP - 14
        return inside and all(
            box[2] < other[0] or other[2] < box[0] or box[3] < other[1] or other[3] < box[1] for other in taken
        )

    at = next((i for i, box in enumerate(boxes) if free(box)), 0)
    taken.append(boxes[at])
    return places[at]
