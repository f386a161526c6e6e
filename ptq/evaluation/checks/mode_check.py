"""Doubt that a model was exported for inference."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.wording import plural
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.graph import Graph
from ptq.model.training_mode import list_training_nodes

EVALUATION_MODE = "put it into evaluation mode (PyTorch: eval) before the export"
"""What to do with a model that computes as in training."""


def check_mode(*graphs: Graph) -> Iterator[Diagnosis]:
    """Diagnose the first of the graphs that was exported in training mode; nothing if none was."""
    for graph in graphs:
        found = list_training_nodes(graph)
        if found:
            yield Diagnosis(
                f"exported in training mode ({plural(len(found), 'BatchNormalization')}): its outputs depend on the "
                "other samples of a batch",
                "the model",
                EVALUATION_MODE,
                serious=True,
            )
            return
