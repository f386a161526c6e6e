"""Error of a model's outputs against the float model, with activations rounded by given parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.calibration.calibration import CrossValidationFold
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.types import QuantParams
from ptq.data import Sample
from ptq.evaluation.runs.model_outputs import ModelOutputs
from ptq.evaluation.runs.reference import Outputs
from ptq.model.graph import Graph
from ptq.observers.quantization_error import compute_mean_error
from ptq.observers.stats import TensorStats
from ptq.optimization.error_energy import measure_energy, measure_error_energy
from ptq.optimization.significance import is_hopeless
from ptq.rewrite.instrument.adjustable_scales import make_scales_inputs

Feed = Mapping[str, NDArray[Any]]


class OutputError:
    """Measures the output error of models against the float model on a few samples.

    Attributes:
        samples: The samples.
        folds: The index of the fold that each sample evaluates; without folds 0.
    """

    def __init__(
        self, graph: Graph, samples: Iterable[Sample], run: RunOptions, folds: Sequence[int] = ()
    ) -> None:
        self._model = ModelOutputs(graph, "reference", run)
        self.samples: list[Sample] = []
        self._outputs: list[Outputs] = []
        self.folds: list[int] = []
        # of the first samples: errors on more samples can be compared with theirs
        self._signal = np.zeros(0)
        self.extend(samples, folds)

    @property
    def count(self) -> int:
        """How many samples there are."""
        return len(self.samples)

    def extend(self, samples: Iterable[Sample], folds: Sequence[int] = ()) -> None:
        """Run the float model on more samples, and compare on these too.

        Args:
            samples: The samples.
            folds: The index of the fold that each evaluates; 0 without folds.

        Raises:
            DataError: A sample is unreadable or does not fit, or the model fails on it.
        """
        added = list(samples)
        found = list(self._model.run(added))
        self.samples += added
        self._outputs += found
        self.folds += folds or [0] * len(added)
        if not self._signal.size and found:
            signals = [[measure_energy(o) for o in outputs] for outputs in found]
            self._signal = np.mean(signals, axis=0)

    def errors(
        self,
        model: ModelOutputs,
        feed: Feed | Sequence[Feed],
        than: NDArray[np.float64] | None = None,
        checks: Collection[int] = (),
        known: Sequence[float] | NDArray[np.float64] = (),
    ) -> NDArray[np.float64]:
        """The error of each sample: energy of the output error over mean output energy, averaged over outputs.

        Outputs without signal do not count. See `measure_error_energy` for outputs of another shape.

        Args:
            model: The model to evaluate.
            feed: Inputs in addition to the sample's: the same for all samples, or one for each.
            than: Errors that these must be lower than. Samples run from the largest of them to the least, and stop
                once `is_hopeless`; the errors of the remaining samples are NaN. None to run all.
            checks: After so many samples, the errors so far must be lower too.
            known: The errors of the first samples, which do not run again.

        Raises:
            DataError: The model fails on a sample; the text names it.
        """
        feeds = [feed] * self.count if isinstance(feed, Mapping) else feed
        errors = np.full(self.count, math.nan)
        errors[: len(known)] = known
        order = range(self.count) if than is None else np.argsort(-than, kind="stable")
        remaining = [index for index in order if index >= len(known)]
        ends = [end - len(known) for end in sorted(checks)] if than is not None else []
        ends = [end for end in ends if 0 < end < len(remaining)]
        # other processes run no sample beyond a check before it has passed
        for first, end in itertools.pairwise([0, *ends, len(remaining)]):
            part = remaining[first:end]
            found = model.run([self.samples[k] for k in part], [feeds[k] for k in part])
            for index, outputs in zip(part, found, strict=True):
                errors[index] = self._share(index, outputs)
                if than is not None and is_hopeless(errors, than, checks):
                    return errors
        return errors

    def _share(self, index: int, outputs: Outputs) -> float:
        """The energy of the error of a sample's outputs over mean output energy, averaged over outputs."""
        shares = [
            measure_error_energy(o, r) / s
            for o, r, s in zip(outputs, self._outputs[index], self._signal, strict=True)
            if s > 0
        ]
        return float(np.mean(shares)) if shares else 0.0


class RangeEvaluator:
    """Measures the output error of each sample for given quantization parameters of tensors.

    Attributes:
        runs: How many sets of parameters were measured.
        folds: How many folds the samples belong to.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        tensors: Sequence[str],
        folds: Sequence[CrossValidationFold],
        output_error: OutputError,
        run: RunOptions,
        advance: Callable[[], None] = lambda: None,
    ) -> None:
        """Build the model whose scales are inputs.

        Args:
            graph: The prepared graph; its outputs are those that ``output_error`` compares.
            plan: A plan of it.
            tensors: The tensors whose parameters vary.
            folds: The folds that evaluate.
            output_error: The float model on samples of these folds.
            run: How the job runs.
            advance: Called after each measurement.
        """
        self.runs, self._advance = 0, advance
        self._stats = [fold.calibration.tensors for fold in folds]
        summed = [
            name
            for name, sums in folds[0].calibration.channels.items()
            if sums.mean is not None and name in self._stats[0]
        ]
        self._adjustable = make_scales_inputs(graph, plan, tensors, summed)
        self._model = ModelOutputs(self._adjustable.graph, "range search", run)
        self._output_error, self.folds = output_error, len(folds)
        self._mean_errors: dict[tuple[int, QuantParams], NDArray[np.float32]] = {}

    @property
    def count(self) -> int:
        """How many samples evaluate."""
        return self._output_error.count

    def extend(self, samples: Iterable[Sample], folds: Sequence[int]) -> None:
        """Evaluate on more samples too; see `OutputError.extend`."""
        self._output_error.extend(samples, folds)

    def errors(
        self,
        params: Sequence[Mapping[str, QuantParams]],
        than: NDArray[np.float64] | None = None,
        checks: Collection[int] = (),
        known: Sequence[float] | NDArray[np.float64] = (),
    ) -> NDArray[np.float64]:
        """The output error of each sample, a share of the outputs' energy; see `OutputError.errors`.

        Args:
            params: For each fold, the parameters that its samples evaluate.
            than: Errors that these must be lower than, else the run stops; None to run all.
            checks: After so many samples, the errors so far must be lower too.
            known: The errors of the first samples, which do not run again.
        """
        self.runs += 1
        feeds = [self._feed(*pair) for pair in zip(params, self._stats, strict=True)]
        by_sample = [feeds[fold] for fold in self._output_error.folds]
        errors = self._output_error.errors(self._model, by_sample, than, checks, known)
        self._advance()
        return errors

    def _feed(
        self, params: Mapping[str, QuantParams], stats: Mapping[str, TensorStats]
    ) -> dict[str, NDArray[Any]]:
        feed = self._adjustable.feed(params)
        for name, shift in self._adjustable.mean_shifts.items():
            key = id(stats[name]), params[name]
            if key not in self._mean_errors:
                self._mean_errors[key] = np.array(
                    compute_mean_error(stats[name], params[name]), np.float32
                )
            feed[shift] = self._mean_errors[key]
        return feed
