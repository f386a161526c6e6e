"""Graph → positions of its nodes in layers, and the ways of its edges.

The layout is Sugiyama's (layers, few crossings), as the package ``fast-sugiyama`` (MIT) computes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

ACROSS, DOWN = 150.0, 46.0
"""Distance of the centres of two nodes in one layer, and of two layers, in pixels."""
_UNIT = 72.0
"""The same distances in the layout that is computed."""
_Vertex = int | str
_Place = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Places of nodes and edges.

    Attributes:
        centres: Centre of each node, in pixels from the upper left corner.
        ways: Path of each edge, as SVG has it.
        width: Width of the picture.
        height: Height of the picture.
    """

    centres: tuple[tuple[float, float], ...]
    ways: tuple[str, ...]
    width: float
    height: float


def lay_out(count: int, edges: Sequence[tuple[int, int]]) -> Layout | None:
    """Lay out a graph from top to bottom.

    Args:
        count: Number of nodes.
        edges: Pairs of nodes, the first above the second.

    Returns:
        The layout; None if the package is not installed (extra ``page``).
    """
    try:
        from fast_sugiyama import from_edges
    except ImportError:
        return None
    named = sorted({(str(a), str(b)) for a, b in edges if a != b})
    centres, ways = dict[str, _Place](), list[list[_Place]]()
    left = height = 0.0
    for positions, width, part_height, joined in (
        from_edges(named, dummy_vertices=True) if named else ()
    ):
        top = max(y for _, (_, y) in positions)
        places: dict[_Vertex, _Place] = {
            vertex: (left + x / _UNIT * ACROSS, (top - y) / _UNIT * DOWN)
            for vertex, (x, y) in positions
        }
        centres |= {vertex: place for vertex, place in places.items() if isinstance(vertex, str)}
        ways += _follow_bends(list(joined or named), places)
        left += width / _UNIT * ACROSS + ACROSS
        height = max(height, part_height / _UNIT * DOWN)
    alone = [str(n) for n in range(count) if str(n) not in centres]
    for k, vertex in enumerate(alone):
        centres[vertex] = (k * ACROSS, height + 2 * DOWN)
    return _move_to_corner([centres[str(n)] for n in range(count)], ways)


def _follow_bends(
    joined: Sequence[tuple[_Vertex, _Vertex]], places: Mapping[_Vertex, _Place]
) -> list[list[_Place]]:
    """The places that each edge passes; a number is a bend of one edge, a text a node."""
    following = {a: b for a, b in joined if not isinstance(a, str)}
    ways = []
    for a, b in sorted(joined, key=str):
        if isinstance(a, str) and a in places:
            way = [places[a]]
            while not isinstance(b, str):
                way.append(places[b])
                b = following[b]
            ways.append([*way, places[b]])
    return ways


def _move_to_corner(centres: Sequence[_Place], ways: Sequence[Sequence[_Place]]) -> Layout:
    places = [*centres, *(place for way in ways for place in way)]
    x0 = min((x for x, _ in places), default=0.0) - ACROSS / 2
    y0 = min((y for _, y in places), default=0.0) - DOWN / 2

    def move(place: _Place) -> _Place:
        return round(place[0] - x0, 1), round(place[1] - y0, 1)

    width = max((x for x, _ in places), default=0.0) + ACROSS / 2 - x0
    height = max((y for _, y in places), default=0.0) + DOWN / 2 - y0
    paths = sorted({_draw_way([move(place) for place in way]) for way in ways})
    return Layout(tuple(map(move, centres)), tuple(paths), round(width, 1), round(height, 1))


def _draw_way(way: Sequence[_Place]) -> str:
    """A curve that leaves and reaches each point vertically."""
    path = f"M{way[0][0]:g} {way[0][1]:g}"
    for (x, y), (x2, y2) in pairwise(way):
        middle = (y + y2) / 2
        path += f"V{y2:g}" if x == x2 else f"C{x:g} {middle:g} {x2:g} {middle:g} {x2:g} {y2:g}"
    return path
