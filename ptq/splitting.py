"""Which channels dwarf the others so far that a scale for all is lost on them, and is it worth taking them out?

Transformers have such channels: a few of the residual stream, of what normalizations make of it and of the widest
layers reach tens of times as far as the rest. Only what products read is rounded in the trial, by extremes; masks
and scales being inputs, one model serves every trial. Three of four samples say how far channels go, the rest what
it gains. Of the tensors that have such channels, those are left alone that win next to nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ptq.calibrate import Wanted, exposing
from ptq.data import Samples
from ptq.downstream import is_better
from ptq.eligible import eligible
from ptq.errors import DataError
from ptq.judge import Truth, decibels
from ptq.nodes import name_of
from ptq.observers.affine import asymmetric
from ptq.observers.channels import channel_extremes
from ptq.observers.store import Calibration
from ptq.pipeline import Recipe
from ptq.plan import Plan
from ptq.rewrite.counted import counted
from ptq.rewrite.prepare import Prepared
from ptq.rewrite.scores import scores
from ptq.rewrite.split import Site, sites, split, trial
from ptq.session import Session
from ptq.targets import Target, target
from ptq.types import QuantParams, Range

SAMPLES = 64
_EACH = 4  # every fourth is judged on
_SMALLEST = 128  # channels in and out: a smaller product costs less in float than what this adds
_SHARE = 32  # one channel in so many may be taken out
_LEAST_RATIO = 2**0.5  # of the range with them to that without
_NEARLY = 2**0.25  # of the least range that can be had: fewer channels than that takes will do
_GOOD_DB = 30.0  # of signal over error: what is there needs no help
_LEAST_DB = 1.0  # that a gain is worth, over all
_IDLE_DB = 0.1  # that those left alone may win, together
REASON = "channels that dwarf the others: what is theirs is not rounded"

Extremes = Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]]


def without_outliers(
    prepared: Prepared,
    samples: Samples | None,
    recipe: Recipe,
    *,
    stats: object = None,
    plan: Plan | None = None,
    threads: int = 0,
) -> tuple[Prepared, Recipe]:
    """The model with outlying channels split off where that gains, and the recipe, with their nodes left float.

    Statistics and plans hold for one graph: given any, channels are split off where that makes the graph theirs.

    Raises:
        DataError: A sample is unreadable, does not fit, or the model fails on it.
    """
    graph, row = prepared.graph, target(recipe.target)
    given = plan.graph if plan else stats.graph if isinstance(stats, Calibration) else None
    if samples is None or not row.real_outputs or (stats is not None and given is None):
        return prepared, recipe
    if given == graph.digest():
        return prepared, recipe
    found = sites(graph, eligible(graph, row, recipe.floats).integers)
    large = {site.tensor for site in found if min(site.size()) >= _SMALLEST}
    if not large:
        return prepared, recipe
    some = samples.spread(SAMPLES)
    judged = range(0, len(some), _EACH) if len(some) >= _EACH else range(len(some))
    learnt = some.subset(i for i in range(len(some)) if len(some) < _EACH or i not in judged)
    seen = _extremes(prepared, found, learnt, threads)
    found = [site for site in found if site.tensor in seen]
    outlying = {s.tensor: outliers(*seen[s.tensor]) for s in found if s.tensor in large}
    outlying = {name: few for name, few in outlying.items() if few.size}
    if not outlying:
        return prepared, recipe
    search = _Search(prepared, found, seen, outlying, some.subset(judged), row, threads)
    chosen = search.run()
    if not chosen:
        return prepared, recipe
    changed, added = split(graph, found, {name: outlying[name] for name in chosen})
    if given is not None and changed.digest() != given:
        return prepared, recipe
    channels = sum(outlying[name].size for name in chosen)
    note = (
        f"split {counted(channels, 'outlying channel')} off {counted(len(chosen), 'tensor')}: signal over error with "
        f"the products' inputs rounded {-search.start:.1f} → {-search.reached:.1f} dB"
    )
    recipe = recipe.leaving(dict.fromkeys(added, REASON))
    return replace(prepared, graph=changed, changes=(*prepared.changes, note)), recipe


def outliers(least: NDArray[np.float32], greatest: NDArray[np.float32]) -> NDArray[np.int64]:
    """The channels to take out of a tensor, given the extremes of all; none where they gain too little.

    As few, a power of two, as leave nearly the least range that can be had.
    """
    count = len(least)
    most = count // _SHARE
    if not most:
        return np.zeros(0, np.int64)
    order = np.argsort(-np.maximum(-least, greatest), kind="stable")
    sizes = [2**k for k in range(most.bit_length())]
    widths = [_width(least[order[size:]], greatest[order[size:]]) for size in (0, *sizes)]
    if widths[0] < _LEAST_RATIO * widths[-1] or not widths[0] > 0:
        return np.zeros(0, np.int64)
    size = next(s for s, w in zip(sizes, widths[1:], strict=True) if w <= _NEARLY * widths[-1])
    return np.sort(order[:size]).astype(np.int64)


def _width(least: NDArray[np.float32], greatest: NDArray[np.float32]) -> float:
    return max(0.0, float(greatest.max())) - min(0.0, float(least.min()))


def _extremes(
    prepared: Prepared, found: Sequence[Site], samples: Samples, threads: int
) -> dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """The extremes of the sites' channels; sites where something was not finite are left out."""
    fed = {name_of(v) for v in prepared.graph.inputs}
    names = [site.tensor for site in found]
    computed = [name for name in names if name not in fed]
    session = exposing(prepared.graph, Wanted(computed), threads=threads)
    seen: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}
    for sample in samples:
        try:
            arrays = dict(zip(computed, session.run(sample.feed, computed), strict=True))
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error
        for name in names:
            array = arrays[name] if name in arrays else sample.feed[name]
            if array.size:
                lo, hi = channel_extremes(array.astype(np.float32), -1)
                least, greatest = seen.get(name, (lo, hi))
                seen[name] = np.minimum(lo, least), np.maximum(hi, greatest)
    return {n: ends for n, ends in seen.items() if all(np.isfinite(e).all() for e in ends)}


class _Search:
    """Tries which of the tensors are to lose their outlying channels."""

    def __init__(
        self,
        prepared: Prepared,
        found: Sequence[Site],
        seen: Extremes,
        outlying: Mapping[str, NDArray[np.int64]],
        samples: Samples,
        row: Target,
        threads: int,
    ) -> None:
        self._found, self._seen, self._outlying, self._row = found, seen, outlying, row
        graph = scores(prepared.graph)
        self._trial = trial(graph, found)
        self._session = Session(self._trial.graph, threads=threads, optimize="none")
        self._truth = Truth(graph, samples, threads)
        self.start = self.reached = 0.0

    def run(self) -> list[str]:
        """Their names, in graph order."""
        plain, all_of_them = self._errors(()), self._errors(self._outlying)
        self.start, self.reached = decibels(plain.mean()), decibels(all_of_them.mean())
        gained = self.start - self.reached
        if -self.start >= _GOOD_DB or gained < _LEAST_DB or not is_better(all_of_them, plain):
            return []
        return self._thinned(float(all_of_them.mean()))

    def _thinned(self, least: float) -> list[str]:
        """Without those that would win next to nothing, or that a good model does not need."""
        allowed = max(least * 10 ** (_IDLE_DB / 10), 10 ** (-_GOOD_DB / 10))
        lost = {
            name: float(self._errors(self._outlying.keys() - {name}).mean()) - least
            for name in self._outlying
        }
        kept, error = set(self._outlying), least
        for name in sorted(self._outlying, key=lambda name: lost[name]):
            error += max(0.0, lost[name])
            if error > allowed:
                break
            kept.discard(name)
        self.reached = decibels(self._errors(kept).mean())
        return [name for name in self._outlying if name in kept]

    def _errors(self, without: Collection[str]) -> NDArray[np.float64]:
        feed: dict[str, NDArray[np.generic]] = {}
        for site in self._found:
            mask, params = self._rounded(site, without)
            arrays = (mask, params.scale, params.zero_point.astype(params.qtype.dtype))
            feed |= dict(zip(self._trial.inputs[site.tensor], arrays, strict=True))
        return self._truth.errors(self._session, feed)

    def _rounded(
        self, site: Site, without: Collection[str]
    ) -> tuple[NDArray[np.float32], QuantParams]:
        least, greatest = self._seen[site.tensor]
        mask = np.ones(len(least), np.float32)
        if site.tensor in without:
            mask[self._outlying[site.tensor]] = 0
        span = Range(float((least * mask).min()), float((greatest * mask).max()))
        return mask, asymmetric(span, self._row.activation)
