"""Error injection: the output error of the float model when chosen rounding errors are added to its tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.data.sample_source import name_sample
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part
from ptq.evaluation.metrics import flatten_output
from ptq.kernels.thread_pool import map_in_parallel
from ptq.model.session.session import Session
from ptq.optimization.error_energy import measure_energy
from ptq.rewrite.instrument.error_sources import ErrorProbe

_KEPT_BYTES = 2**28
"""Outputs and rounding errors that are kept; those of further samples are computed again by each call."""
_Arrays = Sequence[NDArray[Any]]
_Energies = tuple[NDArray[np.float64], NDArray[np.float64]]


class ErrorInjector:
    """Runs the float model with chosen rounding errors added, on all processes of the run.

    Attributes:
        probe: The graphs and the error sources.
        runs: How often a graph of the probe ran; repetitions on large samples do not count.
    """

    def __init__(self, probe: ErrorProbe, run: RunOptions) -> None:
        """Load both graphs of the probe.

        Raises:
            ModelError: ONNX Runtime does not take one of them.
        """
        self.probe, self.runs = probe, 0
        self._known = set[str]()
        job = _InjectionJob(probe, run.for_job())
        self._map = SampleMap(job, run, thread_seconds=math.inf)
        self._map.open_here()

    def output_error_energies(
        self, samples: Sequence[Sample], factors: NDArray[np.float32]
    ) -> Iterator[_Energies]:
        """The energy of the error that the scaled rounding errors cause in each output, for each sample.

        Args:
            samples: The samples to run.
            factors: The factor of each error source in each run, shape (runs, sources).

        Yields:
            The energy of the errors, shape (outputs, runs), and of the outputs themselves, shape (outputs,). Both
            are 0 for outputs that are not float, or whose shape depends on values.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        arguments = [factors] * len(samples)
        found = self._map.map(samples, arguments=arguments, in_turn=True)
        for sample, pair in zip(samples, found, strict=True):
            self.runs += len(factors) + (0 if sample.name in self._known else 2)
            self._known.add(sample.name)
            yield pair


@dataclass(frozen=True, eq=False)
class _InjectionJob:
    probe: ErrorProbe
    run: RunOptions

    def open(self) -> Callable[[Part], _Energies]:
        injection = _Injection(self.probe, self.run)

        def run_part(part: Part) -> _Energies:
            [sample], [factors] = part.samples, part.arguments
            return injection.output_error_energy(sample, factors)

        return run_part


class _Injection:
    """Both graphs of a probe, loaded in one process; see `ErrorInjector`."""

    def __init__(self, probe: ErrorProbe, run: RunOptions) -> None:
        self.probe = probe
        self._known_errors: dict[str, _Arrays] = {}
        self._known_outputs: dict[str, _Arrays] = {}
        self._free = _KEPT_BYTES
        open_errors = partial(Session.for_check, probe.error_graph, threads=run.threads)
        open_injected = partial(Session, probe.injected, threads=run.threads)
        both = map_in_parallel(lambda load: load(), [open_errors, open_injected])
        self._errors, self._injected = both

    def output_error_energy(
        self, sample: Sample, factors: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What `ErrorInjector.output_error_energies` yields for one sample."""
        runs = self.output_errors(sample, factors)
        clean = next(runs)
        sums = [
            [_compute_energy(noise) if noise.size else -1.0 for noise in noises] for noises in runs
        ]
        energies = np.array(sums, np.float64).reshape(len(factors), len(clean)).T
        excluded = np.any(energies < 0, axis=1, keepdims=True)
        signal = np.array([measure_energy(y) for y in clean])
        return np.where(excluded, 0.0, energies), np.where(excluded[:, 0], 0.0, signal)

    def output_errors(
        self, sample: Sample, factors: NDArray[np.float32]
    ) -> Iterator[list[NDArray[Any]]]:
        """Yield the outputs without errors, then for each row of factors the error of each output.

        The error is empty for an output that is not float, or whose shape changes. It is 0 where the output without
        errors is not finite.

        Raises:
            DataError: The model fails on the sample; the text names it.
        """
        with name_sample(sample.name):
            errors = self._rounding_errors(sample)
            clean = self._clean_outputs(sample, errors)
            injected = _InjectedErrors(self.probe, errors)
            yield [*clean]
            for row in factors:
                outputs = self._run_injected(sample, injected.feed(row))
                yield [_compute_output_error(o, c) for o, c in zip(outputs, clean, strict=True)]

    def _rounding_errors(self, sample: Sample) -> _Arrays:
        """The rounding error of each source."""
        known = self._known_errors.get(sample.name)
        if known is not None:
            return known
        errors = self._errors.run(sample.feed, self.probe.error_outputs)
        self._keep(self._known_errors, sample, errors)
        return errors

    def _clean_outputs(self, sample: Sample, errors: _Arrays) -> _Arrays:
        """The outputs of the float model."""
        known = self._known_outputs.get(sample.name)
        if known is not None:
            return known
        none = _InjectedErrors(self.probe, errors).feed(np.zeros(len(errors), np.float32))
        clean = self._run_injected(sample, none)
        self._keep(self._known_outputs, sample, clean)
        return clean

    def _run_injected(self, sample: Sample, errors: Mapping[str, NDArray[Any]]) -> _Arrays:
        """The numbers of each output: a sequence is concatenated, as in an evaluation."""
        outputs = self._injected.run({**sample.feed, **errors})
        return [flatten_output(output) for output in outputs]

    def _keep(self, known: dict[str, _Arrays], sample: Sample, arrays: _Arrays) -> None:
        size = sum(array.nbytes for array in arrays)
        if size <= self._free:
            self._free -= size
            known[sample.name] = arrays


def _compute_energy(array: NDArray[Any]) -> float:
    return float(np.square(array, dtype=np.float64).sum())


def _compute_output_error(output: NDArray[Any], clean: NDArray[Any]) -> NDArray[np.float32]:
    if output.dtype.kind != "f" or output.shape != clean.shape:
        return np.empty(0, np.float32)
    noise: NDArray[Any] = np.zeros_like(clean)
    np.subtract(output, clean, out=noise, where=np.isfinite(clean))
    return noise.astype(np.float32, copy=False).reshape(-1)


class _InjectedErrors:
    """The errors to add to each tensor."""

    def __init__(self, probe: ErrorProbe, errors: Sequence[NDArray[Any]]) -> None:
        self._sources: dict[str, list[int]] = {}
        for index, source in enumerate(probe.sources):
            self._sources.setdefault(probe.inputs[source.tensor], []).append(index)
        self._errors = errors

    def feed(self, factors: NDArray[np.float32]) -> Mapping[str, NDArray[Any]]:
        """The sum of the scaled errors of each tensor, by input name; errors alone with factor 1 are not copied."""
        return {name: self._add_up(of, factors) for name, of in self._sources.items()}

    def _add_up(self, sources: Sequence[int], factors: NDArray[np.float32]) -> NDArray[np.float32]:
        chosen = [index for index in sources if factors[index]]
        if not chosen:
            return np.zeros((1,) * self._errors[sources[0]].ndim, np.float32)
        first, *rest = (
            self._errors[k] if factors[k] == 1 else factors[k] * self._errors[k] for k in chosen
        )
        return sum(rest, start=first)
