"""The verb ``inspect``: what would become of a float model, or how a quantized one was made and runs."""

from __future__ import annotations

from collections.abc import Collection

from ptq.core.errors import UsageError
from ptq.core.targets import get_target
from ptq.evaluation.inspection import Inspection, build_inspection, inspect_quantized
from ptq.model.failure import explain_failure
from ptq.model.open import Model, display_name, first_quantized_node, open_model
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare
from ptq.verification.node_status import node_statuses


def inspect(
    model: Model, *, target: str = "ort", skip: Collection[str] = (), opset: OpsetOption = "auto"
) -> Inspection:
    """Report what `quantize` would do with each node, without data; of a quantized model, how it was made and runs.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The target does not exist.
    """
    graph = open_model(model)
    if first_quantized_node(graph) is not None:
        if skip:
            raise UsageError("the model is already quantized; skip applies to a float model")
        with explain_failure(graph):
            statuses = node_statuses(graph)
            return inspect_quantized(display_name(model), graph, get_target(target), statuses)
    graph, prepared = open_and_prepare(graph, opset=opset)
    with explain_failure(graph):
        return build_inspection(display_name(model), graph, prepared, get_target(target), skip)
