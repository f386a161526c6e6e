"""Two models on the same samples, of which one records another preprocessing: its figures are of wrong inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptq.core.preprocess_record import FEEDS
from ptq.data import Samples
from ptq.data.preprocessing.recorded_preprocess import (
    EXPORTER,
    RecordedPreprocess,
    encode_preprocess,
    read_preprocess,
)
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.graph import Graph

REFERENCE_MODEL = "the reference model"


def choose_record(graph: Graph, other: Graph, name: str) -> RecordedPreprocess | None:
    """What prepares the samples of both models: the record of the first; without one, that of the other.

    Args:
        graph: The model whose record comes first.
        other: The model that it is compared with.
        name: What to call the other one.
    """
    found = read_preprocess(graph)
    if found is not None and found.record.get("source") != FEEDS["source"]:
        return found
    return _read_other(other, name) or found


def check_other_record(
    graph: Graph, other: Graph, name: str, samples: Samples
) -> Iterator[Diagnosis]:
    """Diagnose samples that are prepared otherwise than the other model records.

    Arrays say nothing of how they were prepared, so they differ from no record of images.

    Args:
        graph: The model whose record comes first.
        other: The model that does not decide how samples are prepared.
        name: What to call it.
        samples: The opened samples.
    """
    recorded, own = _read_other(other, name), read_preprocess(graph)
    if recorded is None or (own is not None and own.record == recorded.record):
        return  # what differs from both records is named elsewhere
    applied = encode_preprocess(samples.preprocess)
    is_comparable = recorded.record.get("source") == applied.get("source")
    difference = recorded.describe_difference(samples.preprocess) if is_comparable else ""
    if difference:
        # of what an exporter recorded the user may know better
        yield Diagnosis(
            f"both models get the same samples, but {difference}",
            name,
            "evaluate each model alone; compare models that were quantized with the same preprocessing",
            serious=recorded.origin != EXPORTER,
        )


def _read_other(graph: Graph, name: str) -> RecordedPreprocess | None:
    found = read_preprocess(graph)
    return found if found is None or found.origin == EXPORTER else replace(found, origin=name)
