"""The verb ``inspect``: what would become of a float model, or how a quantized one was made and runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import get_args

from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_options, require_choice, require_names
from ptq.core.targets import TargetName, get_target
from ptq.evaluation.report.inspection import Inspection, build_inspection, inspect_quantized
from ptq.model.open import (
    Model,
    display_name,
    find_first_quantized_node,
    open_model,
    read_tflite_content,
)
from ptq.model.qdq.wide_activations import has_16_bit_activations
from ptq.model.session.failure import explain_failure
from ptq.model.tflite.describe_orders import describe_orders
from ptq.model.tflite.graph_builder import is_helper
from ptq.rewrite.prepare.prepare import OpsetOption, open_and_prepare
from ptq.verification.node_status import list_node_statuses


@refuse_unknown_options
def inspect(
    model: Model,
    *,
    target: TargetName = "ort",
    skip: Collection[str] | str = (),
    opset: OpsetOption = "auto",
) -> Inspection:
    """Report what `quantize` would do with each node, without data; of a quantized model, how it was made and runs.

    Args:
        model: A float or a quantized model.
        target: The name of the runtime.
        skip: Nodes or operators of a float model that stay float, as for ``quantize``.
        opset: ``keep`` or ``auto``, as for ``quantize``.

    Raises:
        ModelError: The model cannot be read.
        UsageError: The target does not exist, or ``skip`` is given for a quantized model.
    """
    row, names = get_target(target), require_names("skip", skip)
    require_choice("opset", opset, get_args(OpsetOption))
    graph, content = open_model(model), read_tflite_content(model)
    if find_first_quantized_node(graph) is not None:
        if names:
            raise UsageError("the model is already quantized; skip applies to a float model")
        with explain_failure(graph):
            if content is None:
                return inspect_quantized(display_name(model), graph, row, list_node_statuses(graph))
            row = get_target("litert-a16" if has_16_bit_activations(graph) else "litert")
            statuses = list_node_statuses(graph, row.arithmetic)
            of_file = [status for status in statuses if not is_helper(status.node)]
            found = inspect_quantized(display_name(model), graph, row, of_file)
        return replace(found, opset=None, changes=describe_orders(content))
    graph, prepared = open_and_prepare(graph, opset=opset, float_functions=row.has_float_functions)
    with explain_failure(graph):
        return build_inspection(display_name(model), graph, prepared, row, names)
