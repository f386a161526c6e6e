"""The knee: nodes whose integers cause much error and save little time stay float without being asked for.

The error of each source is estimated on few samples. Nodes then stay float one set after another, the most error for
the least time first, within the limits of `preference`. The estimate is first order; runs with the remaining sources
together choose among the sets. Where samples hold different numbers of decisions, like boxes, the nodes must also
save decisions, counted with models that are quantized on trial: the cheapest set of nodes, and the most expensive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ptq.core.errors import DataError, ModelError
from ptq.core.targets import get_target
from ptq.core.wording import plural
from ptq.data import Sample
from ptq.data.sample import Samples
from ptq.evaluation.frontier import EstimatedFrontier
from ptq.evaluation.runs.session_cache import SessionCache
from ptq.model.proto.external_data import count_weight_bytes
from ptq.optimization.job import Job
from ptq.optimization.mixed_precision.attribution.error_attribution import attribute_error
from ptq.optimization.mixed_precision.attribution.error_injection import ErrorInjector
from ptq.optimization.mixed_precision.attribution.float_cost import (
    build_float_time_model,
    make_time_cost,
)
from ptq.optimization.mixed_precision.attribution.float_reasons import explain_float_nodes
from ptq.optimization.mixed_precision.attribution.quantized_sources import (
    build_quantized_error_probe,
)
from ptq.optimization.mixed_precision.float_trade import FloatTrade
from ptq.optimization.mixed_precision.knee.decisions import CountedDecisions, count_decisions
from ptq.optimization.mixed_precision.knee.float_choice import choose_float_set
from ptq.optimization.mixed_precision.knee.knee_frontier import REASON_PREFIX, trace_frontier
from ptq.optimization.mixed_precision.model_times import FloatSetTimes
from ptq.optimization.preference import DECISION_FLOOR, DEFAULT_PREFERENCE, PREFERENCES, Preference
from ptq.rewrite.instrument.logits import build_logits_graph, build_segments_graph
from ptq.solver.partition.shipped_tables import get_cost_table
from ptq.solver.quantizer import Draft, QuantizedModel

MAX_BYTES = 2**27
"""The largest weights of a model whose error is attributed by default: that holds them several times."""
MAX_TENSORS = 1000
"""The most quantized tensors whose error is attributed by default: each is an error source of every run."""
_GROUPS = 8
"""Groups of error sources that are measured first: half of them hold the error that a knee needs."""
_MIN_SHARE, _MIN_SHARE_FOR_DECISIONS = 1 / 5, 1 / 6
"""The share of the error below which a group is not split."""
_MAX_SAMPLES = 16
"""Samples that the error is attributed on, at most."""
_CONFIRMING_SAMPLES = 16
"""Other samples on which the gain must show too: a set that left 17 % of the error on two left 75 % on more."""
_SAMPLES_FOR_DECISIONS, _SAMPLES_WITH_MOST_DECISIONS = 4, 8
"""Samples where decisions change; where samples hold different numbers of decisions, those with most."""


def keep_knee_float(
    job: Job, draft: Draft, sessions: SessionCache, check: Callable[[Draft], Draft]
) -> tuple[Draft, EstimatedFrontier | None]:
    """The draft with the nodes that stay float by the rule; its recipe is the same where the rule does not apply.

    It applies to targets with a table of times, without a plan, with calibration samples, and where the effort and
    the size of the model allow the estimate. It starts from the model that passes the self-check: nodes that this one
    leaves float can be all that is needed.

    Args:
        job: What is asked.
        draft: What is asked, resolved, and what is made of it already.
        sessions: Opens the quantized model, for the self-check too.
        check: The self-check: quantizes, and leaves nodes float where the result fails.

    Returns:
        The draft, with a note where the preference has no effect; the estimated frontier, None where the rule does
        not apply.

    Raises:
        DataError: A sample is bad.
    """
    preference, per = PREFERENCES[job.options.prefer], job.effort.samples_per_attributed
    table = get_cost_table(get_target(draft.recipe.target))
    if not preference.spend:
        return draft, None
    reason = _find_obstacle(job, draft.recipe.target)
    if reason:
        if job.options.prefer != DEFAULT_PREFERENCE:
            draft = draft.with_knee_note(f"prefer {job.options.prefer} has no effect: {reason}")
        return draft, None
    assert table is not None and job.samples.calibration is not None
    draft = check(draft)
    made = draft.made
    if made is None or len(made.plan.tensors) > MAX_TENSORS:
        return draft, None
    times = FloatSetTimes(made, table)
    if times.is_small or times.all_int8 >= times.in_float:
        return draft, None
    count = min(max(2, len(job.samples.calibration) // per), _MAX_SAMPLES)
    advance = job.run.start_stage("attributing the error", None)
    try:
        found = _find_knee(job, made, times, preference, count, sessions)
    except ModelError:  # the probe can be too large, or have operators that ONNX Runtime lacks
        found = None
    advance.end()
    if found is None:
        return draft, None
    draft = draft.with_knee_note(found.note)
    if found.reasons:
        draft = Draft(draft.recipe.with_float_nodes(found.reasons))
    return draft, found.frontier


def _find_obstacle(job: Job, target: str) -> str:
    """Why the rule does not apply; empty if it does."""
    if job.given.plan is not None:
        return "the plan has the float nodes"
    if get_cost_table(get_target(target)) is None:
        return f"no times decide for target {target}"
    if not job.effort.samples_per_attributed:
        return f"effort {job.options.effort} does not attribute the error"
    if job.samples.calibration is None:
        return "there are no calibration samples to attribute the error on"
    if count_weight_bytes(job.prepared.graph.model) > MAX_BYTES:
        return f"weights of more than {MAX_BYTES >> 20} MiB are too large to attribute the error"
    return ""


@dataclass(frozen=True)
class _Knee:
    reasons: dict[str, str]
    note: str
    frontier: EstimatedFrontier


def _find_knee(
    job: Job,
    quantized: QuantizedModel,
    times: FloatSetTimes,
    preference: Preference,
    count: int,
    sessions: SessionCache,
) -> _Knee | None:
    assert job.samples.calibration is not None
    decisions = count_decisions(job, quantized, sessions)
    lost = decisions is not None and decisions.changed > DECISION_FLOOR
    # logits rank what any sample feels; probabilities only what moves undecided samples, and need more of them
    graph = (
        build_segments_graph(job.prepared.graph) if lost else build_logits_graph(job.prepared.graph)
    )
    probe = build_quantized_error_probe(quantized, graph)
    if not probe.sources:
        return None
    samples = _choose_samples(job.samples.calibration, count, decisions if lost else None)
    injector = ErrorInjector(probe, job.run)
    try:
        found = attribute_error(
            injector,
            samples,
            groups=_GROUPS,
            least=_MIN_SHARE_FOR_DECISIONS if lost else _MIN_SHARE,
        )
    except DataError:  # values decide the shapes of this model, and errors change the values
        return None
    joint, total = float(found.joint_shares.mean()), float(found.mean_shares.sum())
    if not (0 < total < np.inf and 0 < joint < np.inf):
        return None
    trade = FloatTrade(found, make_time_cost(build_float_time_model(quantized)), times)
    others = _choose_others(job.samples.calibration, samples)
    choice = choose_float_set(job, quantized, trade, decisions, injector, (samples, others))
    best, saved = choice.best, choice.saved

    def trace(best: frozenset[str]) -> EstimatedFrontier:
        return trace_frontier(trade, best, job.options.prefer)

    rest = "no more nodes in float" if quantized.recipe.self_check_note else "all in integers"
    if not choice.sets:
        changed = choice.changed
        note = "" if changed is None else f"{rest}: {_explain_none(job, preference, changed)}"
        return _Knee({}, note, trace(frozenset()))
    if best is None:
        note = f"{rest}: with {plural(len(choice.sets[-1].floats), 'node')} in float, {saved}"
        return _Knee({}, note, trace(frozenset()))
    note = (
        f"left in float: {plural(len(best.floats), 'node')}, which cause {100 * (1 - best.error):.0f} % of the "
        f"output error and {_describe_time(best.spent)} of the int8 model's time (estimated; prefer "
        f"{job.options.prefer})"
    )
    reasons = explain_float_nodes(probe.sources, found.mean_shares, best.floats, REASON_PREFIX)
    if saved is not None:
        note = f"{note}; {saved}"
        reasons = {name: f"{why}; {saved.describe()}" for name, why in reasons.items()}
    return _Knee(reasons, note, trace(best.floats))


def _choose_samples(
    calibration: Samples, count: int, decisions: CountedDecisions | None
) -> list[Sample]:
    """The samples that the error is attributed on; ``decisions`` are those that int8 changes too many of."""
    if decisions is None:
        return list(calibration.spread(count))
    chosen = decisions.choose_samples(max(count, _SAMPLES_WITH_MOST_DECISIONS))
    return chosen or list(calibration.spread(max(count, _SAMPLES_FOR_DECISIONS)))


def _choose_others(calibration: Samples, known: Sequence[Sample]) -> list[Sample]:
    """Samples that the error was not attributed on."""
    names = {sample.name for sample in known}
    rest = calibration.subset(lambda name: name not in names)
    return list(rest.spread(_CONFIRMING_SAMPLES)) if len(rest) else []


def _explain_none(job: Job, preference: Preference, changed: float) -> str:
    """Why no node stays float though int8 loses much."""
    left, most = preference.find_required_error(changed), preference.list_limits(changed)[-1]
    return (
        f"no float nodes leave less than {100 * left:.0f} % of the output error for up to {100 * most:.0f} % of the "
        f"int8 model's time and {100 * preference.share_of_saving:.0f} % of the bytes that int8 saves (estimated; "
        f"prefer {job.options.prefer}); ptq frontier shows all choices"
    )


def _describe_time(spent: float) -> str:
    return f"cost {100 * spent:.1f} %" if spent > 0 else f"save {-100 * spent:.1f} %"
