"""How far are a model's outputs from float with its activations rounded in one way or another?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import Fold
from ptq.core.errors import DataError
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.types import QuantParams
from ptq.data import Sample
from ptq.evaluation.metrics import numeric_output
from ptq.model.graph import Graph
from ptq.model.session import Session
from ptq.observers.quantization_error import mean_error
from ptq.observers.stats import TensorStats
from ptq.rewrite.instrument.adjustable_scales import make_scales_inputs
from ptq.rewrite.instrument.logits import logits_graph

SAMPLES = 32

Feed = Mapping[str, NDArray[Any]]


class ReferenceOutputs:
    """What the float model puts out for a few samples, and how far others are from it."""

    def __init__(self, graph: Graph, samples: Iterable[Sample], run: RunOptions) -> None:
        plain = Session(graph, threads=run.threads)
        self._samples = list(samples)
        self._outputs = [_run(plain, sample, {}) for sample in self._samples]
        self.count = len(self._samples)
        signals = [[_energy(o) for o in outputs] for outputs in self._outputs]
        self._signal = np.mean(signals, axis=0) if signals else np.zeros(0)

    def errors(
        self,
        session: Session,
        feed: Feed | Sequence[Feed],
        order: Iterable[int] | None = None,
        most: float = math.inf,
    ) -> NDArray[np.float64]:
        """By sample, the energy of the outputs' error over that of the outputs, the mean of the outputs.

        Args:
            session: The model to judge.
            feed: What it is fed beside a sample, the same for all or one for each.
            order: The samples in the order to run them.
            most: Once the errors' sum is beyond it no further sample is run; theirs are NaN.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        feeds = [feed] * self.count if isinstance(feed, Mapping) else feed
        errors, total = np.full(self.count, math.nan), 0.0
        for place in range(self.count) if order is None else order:
            outputs = _run(session, self._samples[place], feeds[place])
            shares = [
                _energy(o.astype(np.float64) - t) / s
                for o, t, s in zip(outputs, self._outputs[place], self._signal, strict=True)
                if s > 0 and o.shape == t.shape
            ]
            errors[place] = float(np.mean(shares)) if shares else 0.0
            total += errors[place]
            if total > most:
                break
        return errors


class RangeEvaluator:
    """Measures the error of the outputs, sample by sample, for given parameters of tensors."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        tensors: Sequence[str],
        folds: Sequence[Fold],
        run: RunOptions,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        """``advance`` is called after each trial."""
        self.runs, self._advance = 0, advance
        graph = logits_graph(graph)
        self._stats = [fold.calibration.tensors for fold in folds]
        summed = [
            name
            for name, sums in folds[0].calibration.channels.items()
            if sums.mean is not None and name in self._stats[0]
        ]
        self._made = make_scales_inputs(graph, plan, tensors, summed)
        self._session = Session.for_range_search(self._made.graph, threads=run.threads)
        each = -(-SAMPLES // len(folds))
        judges = [list(fold.samples.spread(each)) if tensors else [] for fold in folds]
        self._fold = [place for place, some in enumerate(judges) for _ in some]
        self._truth = ReferenceOutputs(graph, chain.from_iterable(judges), run)
        self.count, self.folds = self._truth.count, len(folds)

    def errors(
        self,
        params: Sequence[Mapping[str, QuantParams]],
        order: Iterable[int] | None = None,
        most: float = math.inf,
    ) -> NDArray[np.float64]:
        """By sample, as a share of the outputs' energy.

        Args:
            params: By fold, what its samples judge.
            order: The samples in the order to run them, as `Truth.errors` takes it; likewise ``most``.
            most: See ``order``.
        """
        self.runs += 1
        feeds = [self._feed(*of) for of in zip(params, self._stats, strict=True)]
        by_sample = [feeds[place] for place in self._fold]
        errors = self._truth.errors(self._session, by_sample, order, most)
        self._advance()
        return errors

    def _feed(
        self, params: Mapping[str, QuantParams], stats: Mapping[str, TensorStats]
    ) -> dict[str, NDArray[Any]]:
        feed = self._made.feed(params)
        for name, shift in self._made.mean_shifts.items():
            feed[shift] = np.array(mean_error(stats[name], params[name]), np.float32)
        return feed


def _run(session: Session, sample: Sample, feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    try:
        return [numeric_output(o) for o in session.run({**sample.feed, **feed})]
    except DataError as error:
        raise DataError(f"{sample.name}: {error}") from error


def _energy(array: NDArray[Any]) -> float:
    if array.dtype.kind != "f":
        return 0.0
    return float(np.square(array[np.isfinite(array)].astype(np.float64)).sum())


def error_db(share: float) -> float:
    """A share of energy in decibels."""
    return 10 * math.log10(share) if share > 0 else -math.inf
