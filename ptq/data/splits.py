"""Which samples of the user's data serve what, and how the model wants them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptq.core.errors import ModelError
from ptq.data import DataSource, InputSpec, Preprocess, Samples, open_samples, split_holdout
from ptq.data.input_scaling import pixel_scale
from ptq.data.labels import require_class
from ptq.model.graph import Graph
from ptq.model.node import consumers_of, dtype_of, is_tensor, name_of, operator_of, shape_of

NAN_AWARE = frozenset(
    [
        "Cast",
        "CastLike",
        "IsInf",
        "IsNaN",
        "ai.onnx.ml::Imputer",
        "ai.onnx.ml::TreeEnsemble",
        "ai.onnx.ml::TreeEnsembleClassifier",
        "ai.onnx.ml::TreeEnsembleRegressor",
    ]
)
"""Operators for which NaN is an input like another."""

_NUMPY_EXTENSION = 2  # numpy's word for types that another package has added


MIN_SEARCH_SAMPLES = 100  # samples to search on: one of them is a point


@dataclass(frozen=True)
class SampleOptions:
    """How the user wants samples read.

    Attributes:
        preprocess: How images become arrays; None where the model's input says it.
        samples: Use that many, evenly spread; None for all.
        skip_bad: Leave unreadable samples out instead of stopping.
        shard: (k, n): every n-th sample from the k-th on; None for all.
    """

    preprocess: Preprocess | None = None
    samples: int | None = None
    skip_bad: bool = False
    shard: tuple[int, int] | None = None

    def open(self, data: DataSource, graph: Graph) -> Samples:
        """Open the samples for a model.

        Raises:
            DataError: They are missing, or are nothing that the model takes.
        """
        return open_samples(
            data,
            input_specs(graph),
            self.preprocess,
            skip_bad=self.skip_bad,
            limit=self.samples,
            shard=self.shard,
        )


@dataclass(frozen=True, eq=False)
class SampleSplit:
    """The samples that serve what.

    Attributes:
        calibration: Ranges are chosen on them.
        evaluation: Accuracy is measured on them.
        described: The same in words.
        search: What to leave float is decided on them; None where nobody has asked for that.
    """

    calibration: Samples | None
    evaluation: Samples | None
    description: str
    search: Samples | None = None


def split_samples(
    graph: Graph,
    data: DataSource | None,
    eval_data: DataSource | None,
    choice: SampleOptions,
    *,
    search: bool = False,
    labels: bool = True,
) -> SampleSplit:
    """Divide the data; without samples for evaluation, a fifth is held out.

    With ``search``, a fifth is held out for that where there are samples for evaluation too; where that is less
    than 100, and without any, those for evaluation serve both.

    Args:
        graph: The model.
        data: Samples for calibration.
        eval_data: Samples for evaluation.
        choice: How they are read.
        search: Whether what to leave float is decided on some.
        labels: Whether labels are compared with the model's outputs.

    Raises:
        DataError: Samples are missing, or are nothing that the model takes, or a label is none of its classes.
    """
    divided = _open_and_split(graph, data, eval_data, choice, search)
    for samples in (divided.evaluation, divided.search) if labels else ():
        if samples is not None:
            require_class(samples.highest_label, _class_counts(graph), "the samples to evaluate on")
    return divided


def _class_counts(graph: Graph) -> dict[str, int]:
    """How many scores each output holds that holds one a class; none where that is not known of all outputs."""
    found = {}
    for value in graph.outputs:
        shape = shape_of(value)
        sizes = [] if shape is None else list(shape[1:] if len(shape) > 1 else shape)
        if not sizes or None in sizes:
            return {}
        largest = max(size for size in sizes if size is not None)
        if largest > 1 and math.prod(size for size in sizes if size is not None) == largest:
            found[name_of(value)] = largest
    return found


def _open_and_split(
    graph: Graph,
    data: DataSource | None,
    eval_data: DataSource | None,
    choice: SampleOptions,
    search: bool,
) -> SampleSplit:
    opened = None if data is None else choice.open(data, graph)
    if eval_data is not None:
        whole = SampleOptions(choice.preprocess, skip_bad=choice.skip_bad).open(eval_data, graph)
        if not search:
            return SampleSplit(opened, whole, "on evaluation samples")
        first, second = (None, None) if opened is None else split_holdout(opened)
        if first is None or second is None or second is first or len(second) < MIN_SEARCH_SAMPLES:
            return SampleSplit(opened, whole, "on evaluation samples", whole)
        return SampleSplit(first, whole, "on evaluation samples", second)
    if opened is None:
        return SampleSplit(None, None, "")
    first, second = split_holdout(opened)
    searched = second if search else None
    if second is first:
        return SampleSplit(first, second, "on calibration samples", searched)
    return SampleSplit(first, second, "on samples held out from calibration", searched)


def input_specs(graph: Graph) -> list[InputSpec]:
    """What the model takes.

    Raises:
        ModelError: An input is not a tensor of numbers, or it or an output is of a type without arrays.
    """
    specs = []
    for value in graph.outputs:
        _require_numpy_type(f"output {value.name}", dtype_of(value))
    for value in graph.inputs:
        dtype, shape = dtype_of(value), shape_of(value)
        if dtype is None or shape is None or not is_tensor(value):
            raise ModelError(
                f"input {value.name} has no shape or is no tensor of numbers; ptq cannot feed it"
            )
        _require_numpy_type(f"input {value.name}", dtype)
        spared = {operator_of(node) for node in consumers_of(value)} <= NAN_AWARE
        specs.append(
            InputSpec(
                name_of(value), dtype, shape, may_hold_nan=spared, pixel_scale=pixel_scale(value)
            )
        )
    return specs


def _require_numpy_type(what: str, dtype: np.dtype[Any] | None) -> None:
    """Refuse types that ONNX Runtime neither takes as arrays nor gives, such as bfloat16."""
    if dtype is not None and dtype.isbuiltin == _NUMPY_EXTENSION:
        raise ModelError(
            f"{what} is {dtype}, of which ONNX Runtime takes and gives no arrays; let the model have float32 "
            "there, and cast inside"
        )


def takes_any_batch(graph: Graph) -> bool:
    """Whether the model takes any number of samples at once."""
    shapes = [shape_of(value) for value in graph.inputs]
    return all(shape is not None and len(shape) > 0 and shape[0] is None for shape in shapes)
