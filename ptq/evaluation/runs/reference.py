"""Outputs of the float model on a few samples, which other models are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ptq.data import Sample
from ptq.data.sample_source import name_sample
from ptq.evaluation.metrics import flatten_output
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
    with name_sample(sample.name):
        return [flatten_output(y) for y in session.run({**sample.feed, **(feed or {})})]
