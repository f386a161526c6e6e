"""The layout of the page's graph: an edge leads downwards, nothing lies outside, and it is always the same."""

from __future__ import annotations

import sys

import pytest

from ptq.page.layout import ACROSS, DOWN, lay_out

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]


def test_without_its_package_there_is_no_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fast_sugiyama", None)
    assert lay_out(4, DIAMOND) is None


def test_every_edge_leads_downwards_and_every_node_lies_in_the_picture() -> None:
    pytest.importorskip("fast_sugiyama", reason="fast-sugiyama is an extra: page")
    layout = lay_out(5, DIAMOND)  # node 4 has no edges
    assert layout is not None
    assert all(layout.centres[a][1] + DOWN <= layout.centres[b][1] for a, b in DIAMOND)
    assert len(set(layout.centres)) == 5
    for x, y in layout.centres:
        assert ACROSS / 2 <= x <= layout.width - ACROSS / 2
        assert DOWN / 2 <= y <= layout.height - DOWN / 2
    assert len(layout.ways) == len(DIAMOND)


def test_the_order_of_the_edges_does_not_matter() -> None:
    pytest.importorskip("fast_sugiyama", reason="fast-sugiyama is an extra: page")
    assert lay_out(4, DIAMOND) == lay_out(4, DIAMOND[::-1])
