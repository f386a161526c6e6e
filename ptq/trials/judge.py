"""How far are a model's outputs from float with its activations rounded in one way or another?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.accuracy.metrics import numbers
from ptq.data import Sample
from ptq.errors import DataError
from ptq.gather import Held
from ptq.graph import Graph
from ptq.observers.error import mean_error
from ptq.plan import Plan
from ptq.rewrite.knobs import knobs
from ptq.rewrite.scores import scores
from ptq.session import Session
from ptq.types import QuantParams

SAMPLES = 16


class Truth:
    """What the float model puts out for a few samples, and how far others are from it."""

    def __init__(self, graph: Graph, samples: Iterable[Sample], threads: int) -> None:
        plain = Session(graph, threads=threads)
        self._samples = list(samples)
        self._outputs = [_run(plain, sample, {}) for sample in self._samples]
        self.count = len(self._samples)
        signals = [[_energy(o) for o in outputs] for outputs in self._outputs]
        self._signal = np.mean(signals, axis=0) if signals else np.zeros(0)

    def errors(
        self,
        session: Session,
        feed: Mapping[str, NDArray[Any]],
        order: Iterable[int] | None = None,
        most: float = math.inf,
    ) -> NDArray[np.float64]:
        """By sample, the energy of the outputs' error over that of the outputs, the mean of the outputs.

        Args:
            session: The model to judge.
            feed: What it is fed beside a sample.
            order: The samples in the order to run them.
            most: Once the errors' sum is beyond it no further sample is run; theirs are NaN.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        errors, total = np.full(self.count, math.nan), 0.0
        for place in range(self.count) if order is None else order:
            outputs = _run(session, self._samples[place], feed)
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


class Judge:
    """Measures the error of the outputs, sample by sample, for given parameters of tensors."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        tensors: Sequence[str],
        held: Held,
        threads: int,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        """``advance`` is called after each trial."""
        self.runs, self._advance = 0, advance
        graph = scores(graph)
        means = held.calibration.channels
        summed = [name for name, sums in means.items() if sums.mean is not None]
        self._stats = held.calibration.tensors
        self._made = knobs(graph, plan, tensors, [n for n in summed if n in self._stats])
        self._session = Session(self._made.graph, threads=threads, integers=False)
        self._truth = Truth(graph, held.samples.spread(SAMPLES) if tensors else (), threads)
        self.count = self._truth.count

    def errors(
        self,
        params: Mapping[str, QuantParams],
        order: Iterable[int] | None = None,
        most: float = math.inf,
    ) -> NDArray[np.float64]:
        """By sample, as a share of the outputs' energy; with an order and a bound as `Truth.errors` takes them."""
        self.runs += 1
        feed = self._made.feed(params)
        for name, shift in self._made.shifts.items():
            feed[shift] = np.array(mean_error(self._stats[name], params[name]), np.float32)
        errors = self._truth.errors(self._session, feed, order, most)
        self._advance()
        return errors


def _run(session: Session, sample: Sample, feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    try:
        return [numbers(o) for o in session.run({**sample.feed, **feed})]
    except DataError as error:
        raise DataError(f"{sample.name}: {error}") from error


def _energy(array: NDArray[Any]) -> float:
    if array.dtype.kind != "f":
        return 0.0
    return float(np.square(array[np.isfinite(array)].astype(np.float64)).sum())


def decibels(share: float) -> float:
    """A share of energy in decibels."""
    return 10 * math.log10(share) if share > 0 else -math.inf
