"""What do a model's outputs lose where some sources of error are switched on, and by how much?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample
from ptq.model.session import Session
from ptq.rewrite.instrument.error_sources import ErrorProbe


class ErrorInjector:
    """A model taken apart, ready to run."""

    def __init__(self, probe: ErrorProbe, run: RunOptions = DEFAULT_RUN) -> None:
        """Load both graphs of the probe.

        Raises:
            ModelError: ONNX Runtime does not take one of them.
        """
        self.probe = probe
        self._errors = Session(probe.error_graph, threads=run.threads)
        self._given = Session(probe.injected, threads=run.threads)

    def output_error_energy(
        self, sample: Sample, factors: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What the errors, each times its factor, make in each output of one sample.

        Args:
            sample: What to run.
            factors: By run and source.

        Returns:
            By output and run the energy of the error; by output that of the output itself. Both are 0 for outputs
            that hold no floats, or as many as the values of others say.

        Raises:
            DataError: The model fails on the sample; the text names it.
        """
        runs = self.output_errors(sample, factors)
        clean = next(runs)
        sums = [[_energy(noise) if noise.size else -1.0 for noise in noises] for noises in runs]
        energies = np.array(sums, np.float64).reshape(len(factors), len(clean)).T
        void = np.any(energies < 0, axis=1, keepdims=True)
        own = np.array([_energy(y) if y.dtype.kind == "f" else 0.0 for y in clean])
        return np.where(void, 0.0, energies), np.where(void[:, 0], 0.0, own)

    def output_errors(
        self, sample: Sample, factors: NDArray[np.float32]
    ) -> Iterator[list[NDArray[Any]]]:
        """The outputs without errors, then what each row of factors adds to them: nothing where that is no number.

        Raises:
            DataError: The model fails on the sample; the text names it.
        """
        try:
            added = self._errors.run(sample.feed, self.probe.error_outputs)
            sums = _InjectedErrors(self.probe, added)
            clean = self._given.run({**sample.feed, **sums.feed(np.zeros(len(added), np.float32))})
            yield clean
            for row in factors:
                outputs = self._given.run({**sample.feed, **sums.feed(row)})
                yield [_output_error(o, truth) for o, truth in zip(outputs, clean, strict=True)]
        except DataError as error:
            raise DataError(f"{sample.name}: {error}") from error


def _energy(array: NDArray[Any]) -> float:
    return float(np.square(array.astype(np.float64)).sum())


def _output_error(output: NDArray[Any], clean: NDArray[Any]) -> NDArray[np.float32]:
    if output.dtype.kind != "f" or output.shape != clean.shape:
        return np.empty(0, np.float32)
    noise: NDArray[np.float32] = (output - clean).astype(np.float32).reshape(-1)
    return noise


class _InjectedErrors:
    """What to add to each tensor, in the same memory run after run."""

    def __init__(self, probe: ErrorProbe, added: Sequence[NDArray[Any]]) -> None:
        self._parts: dict[str, list[int]] = {}
        for index, source in enumerate(probe.sources):
            self._parts.setdefault(probe.inputs[source.tensor], []).append(index)
        self._added = added
        self._sums = {name: np.empty_like(added[at[0]]) for name, at in self._parts.items()}

    def feed(self, factors: NDArray[np.float32]) -> Mapping[str, NDArray[Any]]:
        """The errors that show at each tensor, each times its factor; valid until the next call."""
        fed = {}
        for name, (first, *others) in self._parts.items():
            if not factors[[first, *others]].any():
                fed[name] = np.zeros((1,) * self._sums[name].ndim, np.float32)
                continue
            fed[name] = np.multiply(self._added[first], factors[first], out=self._sums[name])
            for index in others:
                fed[name] += factors[index] * self._added[index]
        return fed
