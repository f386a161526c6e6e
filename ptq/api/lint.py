"""The verb ``lint``: where a quantized model breaks a target's specification."""

from __future__ import annotations

from ptq.core.option_checks import (
    refuse_unknown_options,
)
from ptq.core.targets import TargetName, get_target
from ptq.model.open import Model, open_model, require_quantized
from ptq.model.session.failure import explain_failure
from ptq.verification.lint import choose_rules, lint_graph
from ptq.verification.lint_preprocess import check_recorded_preprocess
from ptq.verification.lint_rules import Finding


@refuse_unknown_options
def lint(model: Model, *, target: TargetName | None = None) -> tuple[Finding, ...]:
    """List where a quantized model breaks a target's specification, or is not covered by it.

    A preprocessing in the model's metadata that its input contradicts is listed too.

    Args:
        model: The quantized model.
        target: The target; by default the one that the model records if that has rules, else ``litert``.

    Raises:
        ModelError: The model cannot be read, or has no integers.
        UsageError: The target is unknown, or has no specification.
    """
    if target is not None:
        get_target(target)
    graph = require_quantized(open_model(model))
    with explain_failure(graph):
        return (
            *check_recorded_preprocess(graph),
            *lint_graph(graph, target or choose_rules(graph)),
        )
