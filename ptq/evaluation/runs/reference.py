"""Outputs of the float model on a few samples, which other models are compared with.

Four places divide the energy of an output's error by the energy of the output. What the two cannot express is treated
by the purpose of the place:

Report (`ptq.evaluation.metrics`): values that are not finite in float are left out. A shape that differs, and other
values that are not finite, are an infinite error, because the user must see them.

Self-check (`ptq.optimization.self_check.output_distance`): values that are not finite in float are left out. Other
values that are not finite are a failure. An output whose length differs is not compared, because rounding may decide
the length.

Range search (`ptq.optimization.output_error`): an error that is not finite, a shape that differs and an output
without energy do not count. The search compares errors of one model, in which these occur alike.

Error injection (`ptq.optimization.mixed_precision.error_injection`): a shape that differs does not count. An error
that is not finite makes the share infinite, so the source counts as the most harmful one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data import Sample
from ptq.evaluation.metrics import numeric_output
from ptq.model.session.session import Session

Outputs = list[NDArray[Any]]
DigestedOutputs = tuple[bytes, Outputs]
"""The digest of a sample, and the outputs of a model on it."""


@dataclass(frozen=True, eq=False)
class ReferenceOutputs:
    """The outputs of a model on a few samples.

    Attributes:
        samples: The samples.
        outputs: The outputs on each sample; empty if there is nothing to compare with.
    """

    samples: Sequence[Sample]
    outputs: Sequence[Outputs]


def run_sample(
    session: Session, sample: Sample, feed: Mapping[str, NDArray[Any]] | None
) -> Outputs:
    """The numeric outputs of a model on a sample, with inputs in addition to the sample's.

    Raises:
        DataError: The model fails on the sample; the text names it.
    """
    try:
        return [numeric_output(y) for y in session.run({**sample.feed, **(feed or {})})]
    except DataError as error:
        raise DataError(f"{sample.name}: {error}") from error
