"""Verdict → cards."""

from __future__ import annotations

from collections.abc import Iterable

from ptq.evaluation.presentation.verdict import VerdictFigure
from ptq.page.blocks import Card


def build_cards(figures: Iterable[VerdictFigure]) -> tuple[Card, ...]:
    """A card for each figure of a verdict."""
    return tuple(Card(f.name, f.value, f.notes, f.tone) for f in figures)
