"""Lint: the preprocessing that a model's metadata record, against the model's input."""

from __future__ import annotations

from collections.abc import Iterator

from ptq.core.errors import DataError, ModelError, UsageError
from ptq.data.preprocessing.preparation_kinds import resolve_preparation
from ptq.data.preprocessing.recorded_preprocess import read_preprocess
from ptq.data.splits import list_input_specs
from ptq.model.graph import Graph
from ptq.model.metadata import PREPROCESS
from ptq.model.node import get_name
from ptq.rewrite.border.element_types import open_with_float_border
from ptq.verification.lint_rules import Finding


def check_recorded_preprocess(graph: Graph) -> Iterator[Finding]:
    """A note if the recorded preprocessing cannot be read, or the model's input does not take its arrays."""
    recorded = read_preprocess(graph)
    if recorded is None:
        return
    try:
        options = recorded.to_options()
        if options is None:
            return
        resolve_preparation(options, list_input_specs(open_with_float_border(graph)))
    except (DataError, ModelError, UsageError) as error:
        yield Finding(
            tensor=", ".join(get_name(value) for value in graph.inputs),
            node="metadata",
            rule="preprocessing",
            clause=PREPROCESS,
            text=f"the recorded preprocessing contradicts the model: {error}",
            severity="note",
        )
