"""Split of the user's samples into calibration, evaluation and search samples; the inputs of the model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptq.core.errors import ModelError, UsageError
from ptq.core.option_checks import require_count, require_flag, require_shard
from ptq.data import (
    DataSource,
    InputSpec,
    Preparation,
    Preprocess,
    Samples,
    open_samples,
    split_holdout,
)
from ptq.data.input_scaling import find_pixel_scale
from ptq.data.labels.label_numbers import require_class
from ptq.data.preprocessing.preparation_kinds import PREPARATIONS
from ptq.data.preprocessing.recorded_preprocess import (
    AppliedPreprocess,
    RecordedPreprocess,
    encode_preprocess,
    read_preprocess,
)
from ptq.data.sample_store import CacheOption, parse_cache
from ptq.model.graph import Graph
from ptq.model.node import get_dtype, get_name, get_operator, get_shape, is_tensor, list_consumers
from ptq.model.training_mode import list_training_nodes

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
"""Operators that handle NaN like any other value."""

_NUMPY_EXTENSION = 2
"""Value of ``dtype.isbuiltin`` for types that another package adds to numpy."""

MIN_SEARCH_SAMPLES = 100
"""Smallest number of samples for a search. One of 100 samples is one percentage point."""

ON_CALIBRATION = "on calibration samples"
"""Description of an evaluation whose samples all set ranges too."""


@dataclass(frozen=True)
class SampleOptions:
    """How the user wants samples read.

    Attributes:
        preprocess: Options from image, audio or text to arrays; None to take all from the model's inputs.
        samples: Number of samples to use, evenly spread; None for all.
        skip_bad: Whether to leave unreadable samples out instead of stopping.
        shard: (k, n): every n-th sample from the k-th on; None for all.
        cache: Where samples from Python are kept on disk; None for memory.
        recorded: Preprocessing that statistics or a plan record; None for that of the model's metadata.
        required: Whether arrays that ``preprocess`` does not apply to are refused, or fed as given.
        title: How messages name a source without a name of its own: the argument of the caller.
    """

    preprocess: Preparation | None = None
    samples: int | None = None
    skip_bad: bool = False
    shard: tuple[int, int] | None = None
    cache: CacheOption | None = None
    recorded: RecordedPreprocess | None = None
    required: bool = True
    title: str = "data"

    def __post_init__(self) -> None:
        if self.preprocess is not None and not isinstance(
            self.preprocess, tuple(PREPARATIONS.values())
        ):
            kind = type(self.preprocess).__name__
            raise UsageError(
                f"preprocess of type {kind}; pass ptq.Preprocess(mean=…, std=…)", "preprocess"
            )
        if self.samples is not None:
            object.__setattr__(self, "samples", require_count("samples", self.samples, least=1))
        object.__setattr__(self, "skip_bad", require_flag("skip_bad_samples", self.skip_bad))
        if self.cache is not None:
            parse_cache(self.cache)
        if self.shard is not None:
            object.__setattr__(self, "shard", require_shard(self.shard))

    def open(self, data: DataSource, graph: Graph) -> Samples:
        """Open the samples for a model.

        Raises:
            DataError: There are no samples, or the model does not take them.
        """
        return open_samples(
            data,
            list_input_specs(graph),
            self.preprocess,
            skip_bad=self.skip_bad,
            limit=self.samples,
            shard=self.shard,
            cache=self.cache,
            recorded=self._record_for(graph),
            required=self.required,
            title=self.title,
        )

    def describe(self, samples: Samples, graph: Graph) -> AppliedPreprocess:
        """How opened samples become arrays, and what they have otherwise than the record."""
        record, recorded = encode_preprocess(samples.preprocess), self._record_for(graph)
        if recorded is None:
            return AppliedPreprocess(record)
        difference = recorded.describe_difference(samples.preprocess)
        return AppliedPreprocess(record, recorded.origin, difference)

    def _record_for(self, graph: Graph) -> RecordedPreprocess | None:
        return read_preprocess(graph) if self.recorded is None else self.recorded


@dataclass(frozen=True, eq=False)
class SampleSplit:
    """The samples for each purpose.

    Attributes:
        calibration: Samples on which ranges are chosen.
        evaluation: Samples on which accuracy is measured.
        description: Text that says which samples the evaluation uses.
        search: Samples on which a search decides which nodes stay float; None without a search.
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
    """Split the samples; without evaluation samples, a fifth is held out.

    With ``search`` and evaluation samples, a fifth of the calibration samples is held out for the search. If that is
    less than 100 samples, the search uses the evaluation samples. Without evaluation samples, the search uses
    the held-out fifth, as the evaluation does.

    Args:
        graph: The model.
        data: Samples for calibration.
        eval_data: Samples for evaluation.
        choice: How they are read.
        search: Whether a search decides which nodes stay float.
        labels: Whether labels are compared with the model's outputs.

    Raises:
        DataError: There are no samples, the model does not take them, or a label is not one of its classes.
    """
    divided = _open_and_split(graph, data, eval_data, choice, search)
    for samples in (divided.evaluation, divided.search) if labels else ():
        if samples is not None:
            require_class(samples.highest_label, count_classes(graph), "the samples to evaluate on")
    return divided


def count_classes(graph: Graph) -> dict[str, int]:
    """Number of class scores of each output that has scores; empty if the shape of an output is unknown."""
    found = {}
    for value in graph.outputs:
        shape = get_shape(value)
        sizes = [] if shape is None else list(shape[1:] if len(shape) > 1 else shape)
        if not sizes or None in sizes:
            return {}
        largest = max(size for size in sizes if size is not None)
        if largest > 1 and math.prod(size for size in sizes if size is not None) == largest:
            found[get_name(value)] = largest
    return found


def _open_and_split(
    graph: Graph,
    data: DataSource | None,
    eval_data: DataSource | None,
    choice: SampleOptions,
    search: bool,
) -> SampleSplit:
    opened: Samples | None
    whole: Samples | None
    if data is not None and eval_data is not None:
        opened, whole = _open_both(graph, data, eval_data, choice)
    else:
        opened = None if data is None else choice.open(data, graph)
        whole = None if eval_data is None else _to_evaluation_options(choice).open(eval_data, graph)
    if whole is not None:
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
        return SampleSplit(first, second, ON_CALIBRATION, searched)
    return SampleSplit(first, second, "on samples held out from calibration", searched)


def _open_both(
    graph: Graph, data: DataSource, eval_data: DataSource, choice: SampleOptions
) -> tuple[Samples, Samples]:
    """Calibration and evaluation samples; the options apply to those that are images, audio or text.

    Raises:
        DataError: There are no samples, or the model does not take them.
        UsageError: The given options apply to neither.
    """
    choice = replace(choice, required=False)
    opened, whole = choice.open(data, graph), _to_evaluation_options(choice).open(eval_data, graph)
    given = choice.preprocess not in (None, Preprocess())
    if given and all(_find_preprocess(samples) is None for samples in (opened, whole)):
        raise UsageError(
            "preprocessing options apply only to images (also as uint8 pixels), audio and text; the calibration and "
            "the evaluation samples are other arrays, which are fed unchanged; leave the options out"
        )
    return opened, whole


def _to_evaluation_options(choice: SampleOptions) -> SampleOptions:
    """The options for evaluation samples, which are all used."""
    return replace(choice, samples=None, shard=None, title="eval_data")


def _find_preprocess(samples: Samples) -> Preparation | None:
    """How samples become arrays; the first item of a stream is read, because it shows what the stream holds."""
    if samples.preprocess is None:
        samples.first(1)
    return samples.preprocess


def list_input_specs(graph: Graph) -> list[InputSpec]:
    """Specifications of the model's inputs.

    Raises:
        ModelError: An input is not a tensor of numbers, or numpy has no arrays of an input's or output's type.
    """
    specs = []
    for value in graph.outputs:
        _require_numpy_type(f"output {value.name}", get_dtype(value))
    for value in graph.inputs:
        dtype, shape = get_dtype(value), get_shape(value)
        if dtype is None or shape is None or not is_tensor(value):
            raise ModelError(
                f"input {value.name} has no shape or is not a tensor of numbers; ptq cannot feed it"
            )
        _require_numpy_type(f"input {value.name}", dtype)
        nan_aware = {get_operator(node) for node in list_consumers(value)} <= NAN_AWARE
        specs.append(
            InputSpec(
                get_name(value),
                dtype,
                shape,
                may_hold_nan=nan_aware,
                pixel_scale=find_pixel_scale(value),
            )
        )
    return specs


def _require_numpy_type(what: str, dtype: np.dtype[Any] | None) -> None:
    """Refuse types that ONNX Runtime cannot exchange as arrays, for example bfloat16."""
    if dtype is not None and dtype.isbuiltin == _NUMPY_EXTENSION:
        raise ModelError(
            f"{what} has type {dtype}, which ONNX Runtime cannot exchange as an array; "
            "make it float32 and insert a Cast"
        )


def has_free_batch(graph: Graph) -> bool:
    """Whether the batch axis of every input is dynamic, and samples of a batch do not change one another."""
    if list_training_nodes(graph):
        return False
    shapes = [get_shape(value) for value in graph.inputs]
    return all(shape is not None and len(shape) > 0 and shape[0] is None for shape in shapes)
