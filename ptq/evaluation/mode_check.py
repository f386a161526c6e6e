"""Doubt that a model was exported for inference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.graph import Graph
from ptq.model.node import operator_of
from ptq.model.training_mode import list_training_nodes


def check_mode(graph: Graph) -> Iterator[Diagnosis]:
    """Diagnose a model that was exported in training mode."""
    counts = Counter(map(operator_of, list_training_nodes(graph)))
    if counts:
        tally = ", ".join(f"{count} {op}" for op, count in counts.items())
        yield Diagnosis(
            f"exported in training mode ({tally}): its outputs depend on the other samples of a batch, or on chance",
            "the model",
            "put it into evaluation mode (PyTorch: eval) and export it again",
            serious=True,
        )
