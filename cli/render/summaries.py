"""Results of ``evaluate`` and ``verify`` in short, for Markdown."""

from __future__ import annotations

from ptq.core.wording import plural
from ptq.evaluation.exports.summary import Summary, summarize_forms
from ptq.evaluation.form_titles import title_forms
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.task_wording import describe_forms
from ptq.verification.verify import Verification
from ptq.verification.wording import describe_equality


def summarize_evaluation(result: Evaluation, model: str, arithmetic: str) -> Summary:
    """The short form of an evaluation.

    Args:
        result: The evaluation.
        model: What the model is called.
        arithmetic: The arithmetic of the integer executor.
    """
    titles = title_forms(result, arithmetic)
    if len(result.forms) == 1:
        titles["float"] = "this model"
    facts = [f"{plural(result.samples, 'sample')}, output {result.head}"]
    facts += describe_forms(result, titles)
    if result.budget is not None:
        facts.append(result.budget.sentence)
    rows = summarize_forms(result, titles)
    return Summary(f"Evaluation of {model}", tuple(facts), rows, result.warnings, ())


def summarize_verification(result: Verification, model: str) -> Summary:
    """The short form of a verification."""
    facts = [
        describe_equality(result),
    ]
    if result.first is not None:
        facts.append(f"first difference: {result.first.op} {result.first.node}")
    verdict = "passed" if result.passed else "failed"
    return Summary(f"Verification of {model}: {verdict}", tuple(facts), (), (), ())
