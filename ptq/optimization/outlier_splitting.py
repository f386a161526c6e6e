"""Outlier splitting: computes outlier channels of matrix products in float, the other channels in int8.

Transformers have outlier channels. A few channels of the residual stream, of normalization outputs and of the widest
layers reach tens of times as far as the others, so that one scale for all is too coarse. Dettmers et al. 2022,
"LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale", section 3.2. The split masks the channels by a
multiplication, which can also multiply the remaining channels by SmoothQuant factors at no cost.

The trial rounds the inputs of matrix products only, with ranges from extremes. Factors and scales are inputs, so one
model serves every trial. Training samples measure the channels; held-out samples choose the factors and decide
whether the split gains. A tensor whose split gains next to nothing stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.channel_spreads import SpreadCollector, Spreads, merge_spreads
from ptq.core.decibels import to_error_db
from ptq.core.run_options import RunOptions
from ptq.core.stages import MEASURING_CHANNELS
from ptq.core.target import Target
from ptq.core.types import Range
from ptq.core.wording import plural
from ptq.data import Samples, spread_with_validation
from ptq.evaluation.runs.model_outputs import ModelOutputs
from ptq.model.graph import Graph
from ptq.observers.channel_spread import ChannelSpread
from ptq.optimization.earlier_run import Given
from ptq.optimization.effort import Effort
from ptq.optimization.outlier_channels import find_outlier_channels
from ptq.optimization.output_error import OutputError
from ptq.optimization.significance import is_significantly_lower
from ptq.optimization.smoothquant_factors import compute_smoothquant_factors
from ptq.rewrite.equalize.split_outliers import (
    SplitSite,
    get_weight_by_input_channel,
    group_tied_sites,
    split_channels,
    split_sites,
)
from ptq.rewrite.instrument.adjustable_outliers import make_outlier_factors_inputs
from ptq.rewrite.instrument.logits import build_logits_graph
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.partition.eligibility import assign_precision
from ptq.solver.recipe import Recipe
from ptq.solver.scales.group_qparams import convert_range_to_qparams

_MIN_CHANNELS = 128
"""Input and output channels that a product needs: a smaller one costs less in float than the split adds."""
_MIN_SAMPLES = 8
"""With fewer samples chance decides."""
_FIRST_SAMPLES = 8
"""Samples that are measured first: without outliers in them, or with little error, no more are."""
_SUFFICIENT_DB = 30.0
"""An SQNR that needs no improvement."""
_SURELY_SUFFICIENT_DB = _SUFFICIENT_DB + 6.0
"""An estimated SQNR at which no trial is needed: layers change the ratio of error and signal by less."""
_MIN_GAIN_DB = 1.0
"""The least gain that all splits together must have."""
_NEGLIGIBLE_DB = 0.1
"""The gain that the dropped splits may have together."""
_EXTREMES_EXPONENTS = (0.0, 0.5, 1.0)
"""How SmoothQuant factors measure a channel: 0 by root mean square, 1 by extremes."""
REASON = "outlier channels are computed in float"
TECHNIQUE = "outlier splitting"

ChannelFactors = dict[str, NDArray[np.float32]]
"""The factors of the channels of each tensor; 0 for outlier channels."""


def split_outlier_channels(
    prepared: PreparedModel,
    samples: Samples | None,
    recipe: Recipe,
    given: Given,
    effort: Effort,
    run: RunOptions,
) -> tuple[PreparedModel, Recipe]:
    """The model with outlier channels split off where that gains, and the recipe that keeps their nodes in float.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    graph, row = prepared.graph, recipe.target_row
    sites = (
        split_sites(graph, assign_precision(graph, row, recipe.float_nodes).quantized_nodes)
        if row.layers_return_float
        else []
    )
    large = {site.tensor for site in sites if min(site.channel_counts()) >= _MIN_CHANNELS}
    if not large:
        return prepared, recipe
    if given.belongs_to(graph):
        return given.leave_unchanged(prepared, TECHNIQUE), recipe
    if samples is None or len(samples) < _MIN_SAMPLES or not effort.outlier_samples:
        return prepared, recipe
    training, held_out = spread_with_validation(samples, effort.outlier_samples)
    parts = _measure(graph, sites, large, training, row, run)
    if not parts:
        return prepared, recipe
    sites = [site for site in sites if all(site.tensor in part for part in parts)]
    spreads, outliers = _find_outliers(graph, sites, merge_spreads(parts), large)
    together = group_tied_sites(graph, sites)
    if not outliers or _is_surely_sufficient(spreads, row):
        return prepared, recipe
    candidates = [
        _compute_candidate_factors(sites, spreads, outliers, exponent)
        for exponent in (None, *_EXTREMES_EXPONENTS)
    ]
    advance = run.start_stage("splitting outliers", None)
    search = _SplitSearch(
        prepared,
        sites,
        together,
        spreads,
        held_out if len(held_out) else training,
        row,
        run,
        advance,
    )
    factors = search.run(candidates)
    advance.end()
    if not factors:
        return prepared, recipe
    changed, added = split_channels(graph, sites, factors)
    if not given.allows(changed):
        return prepared, recipe
    count = sum(outliers[name].size for name in factors)
    note = (
        f"{TECHNIQUE} (LLM.int8): {plural(count, 'channel')} of {plural(len(factors), 'tensor')} "
        f"computed in float; SQNR {-search.start_db:.1f} → {-search.reached_db:.1f} dB"
    )
    recipe = recipe.with_float_nodes(dict.fromkeys(added, REASON))
    return replace(prepared, graph=changed, notes=(*prepared.notes, note)), recipe


def _measure(
    graph: Graph,
    sites: Sequence[SplitSite],
    large: set[str],
    samples: Samples,
    row: Target,
    run: RunOptions,
) -> list[Spreads]:
    """The spreads of the inputs of the sites on the first samples and on the others; empty if no split is needed."""
    collector = SpreadCollector(graph, dict.fromkeys((site.tensor for site in sites), -1), run)
    some = samples.spread(_FIRST_SAMPLES)
    first = collector.collect(run.track(some, MEASURING_CHANNELS))
    spreads, outliers = _find_outliers(graph, sites, first, large)
    if not outliers or _is_surely_sufficient(spreads, row):
        return []  # outlier channels are those of every sample
    rest = samples.subset(lambda name: name not in some.names)
    return [first, collector.collect(run.track(rest, MEASURING_CHANNELS))] if len(rest) else [first]


def _find_outliers(
    graph: Graph, sites: Sequence[SplitSite], spreads: Spreads, large: set[str]
) -> tuple[Spreads, dict[str, NDArray[np.int64]]]:
    """The spreads, one for all uses of a weight, and the outlier channels of each tensor that has any."""
    together = group_tied_sites(graph, [site for site in sites if site.tensor in spreads])
    for names in together:  # one split for all uses of a weight
        merged = reduce(or_, (spreads[name] for name in names))
        spreads = {**spreads, **dict.fromkeys(names, merged)}
    outliers = {
        name: find_outlier_channels(spreads[name].least, spreads[name].greatest)
        for names in together
        for name in names
        if large >= set(names)
    }
    return spreads, {name: channels for name, channels in outliers.items() if channels.size}


def _is_surely_sufficient(spreads: Spreads, row: Target) -> bool:
    return to_error_db(_estimate_error(spreads, row)) < -_SURELY_SUFFICIENT_DB


def _estimate_error(spreads: Spreads, row: Target) -> float:
    """The rounding errors of all tensors, each as a share of its energy, added up."""
    total = 0.0
    for spread in spreads.values():
        whole = Range(float(spread.least.min()), float(spread.greatest.max()))
        step = float(convert_range_to_qparams(whole, row).scale)
        energy = float(spread.sum_of_squares.sum()) / (spread.count * len(spread.least))
        total += step**2 / 12 / energy if energy else 0.0
    return total


def _compute_candidate_factors(
    sites: Sequence[SplitSite],
    spreads: Mapping[str, ChannelSpread],
    outliers: Mapping[str, NDArray[np.int64]],
    exponent: float | None,
) -> ChannelFactors:
    """The factors of each tensor with outliers: 0 for outliers; for others SmoothQuant's, or 1 without exponent."""
    factors: ChannelFactors = {}
    for site in sites:
        if site.tensor in outliers:
            kept = np.ones(site.channel_counts()[0], bool)
            kept[outliers[site.tensor]] = False
            weight = np.concatenate(
                [get_weight_by_input_channel(node) for node in site.products], axis=1
            )
            of_channels = (
                kept
                if exponent is None
                else compute_smoothquant_factors(spreads[site.tensor], weight, kept, exponent)
            )
            factors[site.tensor] = of_channels.astype(np.float32)
    return factors


class _SplitSearch:
    """Chooses the tensors whose outlier channels are split off, and the factors of the other channels.

    Attributes:
        start_db: The error without a split, in decibels.
        reached_db: The error with the chosen splits, in decibels.
    """

    def __init__(
        self,
        prepared: PreparedModel,
        sites: Sequence[SplitSite],
        together: Sequence[Sequence[str]],
        spreads: Mapping[str, ChannelSpread],
        samples: Samples,
        row: Target,
        run: RunOptions,
        advance: Callable[[], None],
    ) -> None:
        self._sites, self._together, self._spreads = sites, together, spreads
        self._row, self._advance = row, advance
        graph = build_logits_graph(prepared.graph)
        self._trial = make_outlier_factors_inputs(graph, sites, row.activation)
        self._model = ModelOutputs(self._trial.graph, "range search", run)
        self._output_error = OutputError(graph, samples, run)
        self.start_db = self.reached_db = 0.0

    def run(self, candidates: Sequence[ChannelFactors]) -> ChannelFactors:
        """The best candidate, for the tensors where it gains, in graph order; empty if nothing gains enough."""
        plain = self._errors({})
        self.start_db = self.reached_db = to_error_db(plain.mean())
        if -self.start_db >= _SUFFICIENT_DB:
            return {}
        errors = [self._errors(factors) for factors in candidates]
        best = min(range(len(candidates)), key=lambda k: float(errors[k].mean()))
        self.reached_db = to_error_db(errors[best].mean())
        if self.start_db - self.reached_db < _MIN_GAIN_DB or not is_significantly_lower(
            errors[best], plain
        ):
            return {}
        return self._drop_negligible(candidates[best], float(errors[best].mean()))

    def _drop_negligible(self, factors: ChannelFactors, least: float) -> ChannelFactors:
        """Drop the tensors that gain next to nothing, or that are not needed for a sufficient SQNR."""
        allowed = max(least * 10 ** (_NEGLIGIBLE_DB / 10), 10 ** (-_SUFFICIENT_DB / 10))
        splits = [names for names in self._together if names[0] in factors]
        lost = [float(self._errors(_without(factors, names)).mean()) - least for names in splits]
        kept, error = dict(factors), least
        for loss, names in sorted(zip(lost, splits, strict=True), key=lambda pair: pair[0]):
            error += max(0.0, loss)
            if error > allowed:
                break
            kept = _without(kept, names)
        self.reached_db = to_error_db(self._errors(kept).mean())
        return kept

    def _errors(self, factors: ChannelFactors) -> NDArray[np.float64]:
        """The output error of each sample with these factors; tensors without factors stay whole."""
        feed: dict[str, NDArray[np.generic]] = {}
        for site in self._sites:
            spread = self._spreads[site.tensor]
            by = factors.get(site.tensor, np.ones(1, np.float32))
            span = Range(float((spread.least * by).min()), float((spread.greatest * by).max()))
            params = convert_range_to_qparams(span, self._row)
            inverse = np.divide(1, by, out=np.zeros_like(by), where=by != 0)
            arrays = (by, inverse, params.scale, params.zero_point.astype(params.qtype.dtype))
            feed |= dict(zip(self._trial.inputs[site.tensor], arrays, strict=True))
        errors = self._output_error.errors(self._model, feed)
        self._advance()
        return errors


def _without(factors: ChannelFactors, names: Collection[str]) -> ChannelFactors:
    return {name: of for name, of in factors.items() if name not in names}
