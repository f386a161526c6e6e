"""Output error of one candidate with quantized activations, by its best range method."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptq.core.types import QuantParams

ParamsByFold = Sequence[Mapping[str, QuantParams]]
"""For each fold, the parameters of each tensor."""
Errors = NDArray[np.float64]
Measure = Callable[[ParamsByFold, Errors | None, Collection[int], Errors], Errors]
"""Measures the error of each sample; see `ptq.optimization.output_error.RangeEvaluator.errors`."""


@dataclass(eq=False)
class CandidateEvaluation:
    """Measures a candidate on more and more samples, with the range method that is best on the first samples.

    Attributes:
        measure: Measures the candidate with given parameters.
        params: The parameters by each range method that may still be taken.
        errors: The error of each sample with the best method so far.
    """

    measure: Measure
    params: dict[str, ParamsByFold]
    errors: Errors = field(default_factory=lambda: np.zeros(0))

    def measure_more(self, checks: Collection[int]) -> Errors:
        """The error of each sample; samples that were measured before do not run again.

        Args:
            checks: After so many samples, a method that is not better than those before is rejected.
        """
        known, best = self.errors, ""
        for method, params in self.params.items():
            than = self.errors if best else None
            errors = self.measure(params, than, checks, known)
            if not best or errors.mean() < self.errors.mean():  # NaN is not lower
                best, self.errors = method, errors
        self.params = {best: self.params[best]}
        return self.errors
