"""A frontier as an SVG picture: SQNR over speed, with the chosen point."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from ptq.evaluation.frontier import FrontierPoint, FrontierReport

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 400, 60, 50, 40, 20
_TICKS = 5
_ESTIMATED, _MEASURED, _CHOSEN = "#3366aa", "#dd7722", "#bb2222"


def render_svg(report: FrontierReport) -> str:
    """The picture as text."""
    points = report.points
    speeds = [s for p in points for s in (p.speed, p.measured_speed) if s is not None]
    errors = [e for p in points for e in (p.sqnr_db, p.measured_sqnr_db) if e is not None]
    plane = _Plane(_widen(speeds), _widen(errors))
    body = "\n".join([*_draw_axes(plane), *_draw_curve(plane, points), *_draw_legend(report)])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


class _Plane:
    """Positions of values in the picture."""

    def __init__(self, across: tuple[float, float], up: tuple[float, float]) -> None:
        self.across, self.up = across, up

    def x(self, value: float) -> float:
        low, high = self.across
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.up
        value = min(max(value, low), high)  # infinite without error
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _BOTTOM - _TOP)


def _widen(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def _draw_axes(plane: _Plane) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for k in range(_TICKS + 1):
        for low, high, is_up in ((*plane.across, False), (*plane.up, True)):
            value = low + (high - low) * k / _TICKS
            if is_up:
                y = plane.y(value)
                yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#dddddd"/>'
                yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.1f}</text>'
            else:
                x = plane.x(value)
                yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#dddddd"/>'
                yield f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{value:.2f}</text>'
    yield f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 10}" text-anchor="middle">speed relative to float</text>'
    middle = _HEIGHT / 2
    yield f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})">SQNR, dB</text>'


def _draw_curve(plane: _Plane, points: Sequence[FrontierPoint]) -> Iterator[str]:
    line = " ".join(f"{plane.x(p.speed):.1f},{plane.y(p.sqnr_db):.1f}" for p in points)
    yield f'<polyline points="{line}" fill="none" stroke="{_ESTIMATED}"/>'
    for point in points:
        x, y = plane.x(point.speed), plane.y(point.sqnr_db)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{_ESTIMATED}"/>'
        yield f'<text x="{x + 5:.1f}" y="{y - 5:.1f}" font-size="10">{point.number}</text>'
        if point.chosen:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8" fill="none" stroke="{_CHOSEN}" stroke-width="2"/>'
        if point.measured_speed is not None and point.measured_sqnr_db is not None:
            x, y = plane.x(point.measured_speed), plane.y(point.measured_sqnr_db)
            yield f'<rect x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" fill="{_MEASURED}"/>'


def _draw_legend(report: FrontierReport) -> Iterator[str]:
    yield f'<text x="{_LEFT}" y="20" font-size="13">{escape(Path(report.model).name)}, target {report.target}</text>'
    for k, (color, text) in enumerate(
        ((_ESTIMATED, "estimated"), (_MEASURED, "measured"), (_CHOSEN, f"prefer {report.prefer}"))
    ):
        x = _WIDTH - 300 + 95 * k
        yield f'<rect x="{x}" y="11" width="9" height="9" fill="{color}"/>'
        yield f'<text x="{x + 13}" y="20">{escape(text)}</text>'
