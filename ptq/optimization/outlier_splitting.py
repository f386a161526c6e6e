"""Which channels dwarf the others so far that a scale for all is lost on them, and is it worth taking them out?

Transformers have such channels: a few of the residual stream, of what normalizations make of it and of the widest
layers reach tens of times as far as the rest. Those that are left are multiplied by factors that make them alike,
as masking them is a multiplication anyway. Only what products read is rounded in the trial, by extremes; factors and
scales being inputs, one model serves every trial. Three of four samples say how far channels go, the rest which
factors do best and what it gains. Of the tensors that have such channels, those that win next to
nothing are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.channel_spreads import collect_channel_spreads
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.core.targets import Target, get_target
from ptq.core.types import Range
from ptq.core.wording import plural
from ptq.data import Samples
from ptq.model.session import Session
from ptq.observers.channel_spread import ChannelSpread
from ptq.observers.qparams import asymmetric_qparams
from ptq.optimization.given import NOTHING_GIVEN, Given
from ptq.optimization.output_error import ReferenceOutputs, error_db
from ptq.optimization.range_search import is_significantly_lower
from ptq.optimization.smoothquant_factors import smoothquant_factors
from ptq.rewrite.equalize.split_outliers import (
    SplitSite,
    split_channels,
    split_sites,
    weight_by_input_channel,
)
from ptq.rewrite.instrument.adjustable_outliers import make_outlier_factors_inputs
from ptq.rewrite.instrument.logits import logits_graph
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.partition.eligibility import assign_precision
from ptq.solver.recipe import Recipe

SAMPLES = 64
_HOLDOUT_EVERY = 4  # every fourth is judged on
_MIN_CHANNELS = (
    128  # channels in and out: a smaller product costs less in float than what this adds
)
_CHANNELS_PER_OUTLIER = 32  # one channel in so many may be taken out
_MIN_RANGE_RATIO = 2**0.5  # of the range with them to that without
_RANGE_TOLERANCE = (
    2**0.25
)  # of the least range that can be had: fewer channels than that takes will do
_SUFFICIENT_DB = 30.0  # of signal over error: what is there needs no help
_MIN_GAIN_DB = 1.0  # that a gain is worth, over all
_NEGLIGIBLE_DB = 0.1  # that those left alone may win, together
_EXTREMES_EXPONENTS = (0.0, 0.5, 1.0)
REASON = "channels that dwarf the others: what is theirs is not rounded"

ChannelFactors = dict[str, NDArray[np.float32]]
"""By tensor, what its channels are multiplied by; 0 for those that are taken out."""


def split_outlier_channels(
    prepared: PreparedModel,
    samples: Samples | None,
    recipe: Recipe,
    given: Given = NOTHING_GIVEN,
    run: RunOptions = DEFAULT_RUN,
) -> tuple[PreparedModel, Recipe]:
    """The model with outlying channels split off where that gains, and the recipe, with their nodes left float.

    Statistics and plans hold for one graph: given any, channels are split off where that makes the graph theirs.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    graph, row = prepared.graph, get_target(recipe.target)
    whole = given.belongs_to(graph)
    if (
        not row.float_outputs
        or (given.plan is not None and whole)
        or (samples is None and not whole)
    ):
        return prepared, recipe
    found = split_sites(graph, assign_precision(graph, row, recipe.float_nodes).quantized_nodes)
    large = {site.tensor for site in found if min(site.channel_counts()) >= _MIN_CHANNELS}
    if not large:
        return prepared, recipe
    if samples is None or whole:
        unasked = (
            "did not look for outlying channels: the statistics given are of the model as it is"
        )
        return replace(prepared, changes=(*prepared.changes, unasked)), recipe
    some = samples.spread(SAMPLES)
    judged = (
        range(0, len(some), _HOLDOUT_EVERY) if len(some) >= _HOLDOUT_EVERY else range(len(some))
    )
    learnt = some.subset(
        i for i in range(len(some)) if len(some) < _HOLDOUT_EVERY or i not in judged
    )
    read = run.track(learnt, "measuring channels")
    seen = collect_channel_spreads(
        graph, dict.fromkeys((site.tensor for site in found), -1), read, run
    )
    found = [site for site in found if site.tensor in seen]
    of = {s.tensor: (seen[s.tensor].least, seen[s.tensor].greatest) for s in found}
    outlying = {s.tensor: outlier_channels(*of[s.tensor]) for s in found if s.tensor in large}
    outlying = {name: few for name, few in outlying.items() if few.size}
    if not outlying:
        return prepared, recipe
    by = [
        _candidate_factors(found, seen, outlying, trust) for trust in (None, *_EXTREMES_EXPONENTS)
    ]
    advance = run.start_stage("splitting outliers", None)
    search = _SplitSearch(prepared, found, seen, some.subset(judged), row, run, advance)
    chosen = search.run(by)
    if not chosen:
        return prepared, recipe
    changed, added = split_channels(graph, found, chosen)
    if given.digest is not None and not given.belongs_to(changed):
        return prepared, recipe
    channels = sum(outlying[name].size for name in chosen)
    note = (
        f"split {plural(channels, 'outlying channel')} off {plural(len(chosen), 'tensor')}: signal over error with "
        f"the products' inputs rounded {-search.start:.1f} → {-search.reached:.1f} dB"
    )
    recipe = recipe.with_float_nodes(dict.fromkeys(added, REASON))
    return replace(prepared, graph=changed, changes=(*prepared.changes, note)), recipe


def outlier_channels(
    least: NDArray[np.float32], greatest: NDArray[np.float32]
) -> NDArray[np.int64]:
    """The channels to take out of a tensor, given the extremes of all; none where they gain too little.

    As few, a power of two, as leave nearly the least range that can be had.
    """
    count = len(least)
    most = count // _CHANNELS_PER_OUTLIER
    if not most:
        return np.zeros(0, np.int64)
    order = np.argsort(-np.maximum(-least, greatest), kind="stable")
    sizes = [2**k for k in range(most.bit_length())]
    widths = [_range_width(least[order[size:]], greatest[order[size:]]) for size in (0, *sizes)]
    if widths[0] < _MIN_RANGE_RATIO * widths[-1] or not widths[0] > 0:
        return np.zeros(0, np.int64)
    size = next(
        s for s, w in zip(sizes, widths[1:], strict=True) if w <= _RANGE_TOLERANCE * widths[-1]
    )
    return np.sort(order[:size]).astype(np.int64)


def _range_width(least: NDArray[np.float32], greatest: NDArray[np.float32]) -> float:
    return max(0.0, float(greatest.max())) - min(0.0, float(least.min()))


def _candidate_factors(
    found: Sequence[SplitSite],
    seen: Mapping[str, ChannelSpread],
    outlying: Mapping[str, NDArray[np.int64]],
    trust: float | None,
) -> ChannelFactors:
    """For each tensor with outlying channels; 1 for all others where no trust is given."""
    by: ChannelFactors = {}
    for site in found:
        if site.tensor in outlying:
            kept = np.ones(site.channel_counts()[0], bool)
            kept[outlying[site.tensor]] = False
            weight = np.concatenate(
                [weight_by_input_channel(node) for node in site.products], axis=1
            )
            unlike = (
                kept
                if trust is None
                else smoothquant_factors(seen[site.tensor], weight, kept, trust)
            )
            by[site.tensor] = unlike.astype(np.float32)
    return by


class _SplitSearch:
    """Tries which of the tensors are to lose their outlying channels."""

    def __init__(
        self,
        prepared: PreparedModel,
        found: Sequence[SplitSite],
        seen: Mapping[str, ChannelSpread],
        samples: Samples,
        row: Target,
        run: RunOptions,
        advance: Callable[[], None],
    ) -> None:
        self._found, self._seen, self._row, self._advance = found, seen, row, advance
        graph = logits_graph(prepared.graph)
        self._trial = make_outlier_factors_inputs(graph, found)
        self._session = Session.for_range_search(self._trial.graph, threads=run.threads)
        self._truth = ReferenceOutputs(graph, samples, run)
        self.start = self.reached = 0.0

    def run(self, tried: Sequence[ChannelFactors]) -> ChannelFactors:
        """The best of the factors, for those tensors where they gain, in graph order."""
        plain = self._errors({})
        errors = [self._errors(by) for by in tried]
        best = min(range(len(tried)), key=lambda k: float(errors[k].mean()))
        self.start, self.reached = error_db(plain.mean()), error_db(errors[best].mean())
        gained = self.start - self.reached
        if (
            -self.start >= _SUFFICIENT_DB
            or gained < _MIN_GAIN_DB
            or not is_significantly_lower(errors[best], plain)
        ):
            return {}
        return self._drop_negligible(tried[best], float(errors[best].mean()))

    def _drop_negligible(self, by: ChannelFactors, least: float) -> ChannelFactors:
        """Without those that would win next to nothing, or that a good model does not need."""
        allowed = max(least * 10 ** (_NEGLIGIBLE_DB / 10), 10 ** (-_SUFFICIENT_DB / 10))
        lost = {
            name: float(self._errors({k: v for k, v in by.items() if k != name}).mean()) - least
            for name in by
        }
        kept, error = dict(by), least
        for name in sorted(by, key=lambda name: lost[name]):
            error += max(0.0, lost[name])
            if error > allowed:
                break
            del kept[name]
        self.reached = error_db(self._errors(kept).mean())
        return kept

    def _errors(self, factors: ChannelFactors) -> NDArray[np.float64]:
        feed: dict[str, NDArray[np.generic]] = {}
        for site in self._found:
            spread, by = self._seen[site.tensor], factors.get(site.tensor, np.ones(1, np.float32))
            span = Range(float((spread.least * by).min()), float((spread.greatest * by).max()))
            params = asymmetric_qparams(span, self._row.activation)
            back = np.divide(1, by, out=np.zeros_like(by), where=by != 0)
            arrays = (by, back, params.scale, params.zero_point.astype(params.qtype.dtype))
            feed |= dict(zip(self._trial.inputs[site.tensor], arrays, strict=True))
        errors = self._truth.errors(self._session, feed)
        self._advance()
        return errors
