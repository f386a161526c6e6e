"""Doubts about the preprocessing of samples, for every verb that measures accuracy.

A better preprocessing of images is searched for only if the reference model may get most labelled samples wrong. The
search tries the usual mistakes on some samples: swapped colours, 0 … 255 instead of 0 … 1 and the reverse, missing
mean and standard deviation. Images are converted back to pixels and preprocessed again. Of arrays, whose
preprocessing is unknown, only the colours are swapped. Only a significant difference is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data import Preprocess, Sample, Samples
from ptq.data.labels.class_names import SORTED_ORDER
from ptq.data.preprocessing.preprocess import IMAGENET_MEAN_STD
from ptq.evaluation import intervals
from ptq.evaluation.checks.label_permutation import count_assigned
from ptq.evaluation.confusion import may_be_low
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.metrics import is_scores
from ptq.evaluation.runs.engines import Engine

MAX_SAMPLES = 64
MIN_GAIN = 0.15
SIGNIFICANCE_LEVEL = 1e-4
MIN_SHARE_OF_ORDER = 0.9
"""Samples that another preprocessing gets right, over those that another order of the classes gets right."""
_RGB = 3


@dataclass(frozen=True)
class _Attempt:
    """Another preprocessing: what to use, and the array that it makes of an array."""

    advice: str
    apply: Callable[[NDArray[Any]], NDArray[Any]]


def explain_low_accuracy(
    evaluation: Evaluation,
    samples: Samples,
    outputs: Sequence[str],
    open_engine: Callable[[], Engine],
    model: str = "the float model",
) -> tuple[Diagnosis, ...]:
    """What an evaluation found, or the better preprocessing of images that explains it.

    The search runs if the reference model may be wrong more often than right. If the classes seem to be in another
    order, swapped colours may be the cause as well. They are searched for unless nobody numbered the classes.

    Args:
        evaluation: The evaluation; its first form is the reference model.
        samples: The evaluated samples.
        outputs: Names of the model's outputs, in order.
        open_engine: Opens the reference model.
        model: What the diagnosis calls it.

    Raises:
        DataError: A sample is bad, or the model fails on it.
    """
    accuracy = next(iter(evaluation.forms.values())).accuracy
    known, labels = evaluation.suspects, evaluation.labels
    permuted = any(suspect.serious for suspect in known)
    if accuracy is None or (permuted and (labels is None or labels.source == SORTED_ORDER)):
        return known
    if not permuted and not may_be_low(round(accuracy.top1 * accuracy.labelled), accuracy.labelled):
        return known
    position = outputs.index(evaluation.head)
    found = find_better_preprocessing(open_engine(), samples, position, model, permuted=permuted)
    return known if found is None else (found,)


def diagnose_assumption(samples: Samples | None) -> tuple[Diagnosis, ...]:
    """What was assumed about pixel values, because nobody gave scale, mean or std."""
    preprocess = None if samples is None else samples.preprocess
    if not isinstance(preprocess, Preprocess) or not preprocess.assumed:
        return ()
    advice = (
        "if the model was trained on other values, give its scale, mean and std: mean 0 and std 1 for plain "
        "0 … 1, scale 1 for 0 … 255"
    )
    return (Diagnosis(preprocess.assumed, "preprocessing", advice),)


def find_better_preprocessing(
    engine: Engine,
    samples: Samples,
    output: int,
    model: str,
    *,
    permuted: bool,
) -> Diagnosis | None:
    """Find a significantly better preprocessing; None if there is none.

    Args:
        engine: The model.
        samples: Labelled images.
        output: Position of the output with class scores.
        model: What the diagnosis calls the model.
        permuted: Whether the classes seem to be in another order. The preprocessing must then be about as good.

    Raises:
        DataError: A sample is bad, or the model fails on it.
    """
    labelled = [sample for sample in samples.spread(MAX_SAMPLES) if sample.labels]
    attempts = list(_list_attempts(samples.preprocess, labelled)) if len(labelled) >= 8 else []
    if not attempts:
        return None
    predicted = _predict(engine, labelled, output, lambda array: array)
    correct = _are_accepted(predicted, labelled)
    results = [
        (attempt, _are_accepted(_predict(engine, labelled, output, attempt.apply), labelled))
        for attempt in attempts
    ]
    best, better = max(results, key=lambda result: int(result[1].sum()))
    gained, lost = int((better & ~correct).sum()), int((correct & ~better).sum())
    if (
        gained - lost < MIN_GAIN * len(labelled)
        or intervals.compute_mcnemar_p_value(lost, gained) > SIGNIFICANCE_LEVEL
    ):
        return None
    pairs = zip(labelled, predicted, strict=True)
    confusion = Counter((s.labels[0], p) for s, p in pairs if len(s.labels) == 1)
    if permuted and better.sum() < MIN_SHARE_OF_ORDER * count_assigned(confusion):
        return None
    return Diagnosis(
        f"{model} gets {correct.sum()} of {len(labelled)} samples right, but {better.sum()} "
        "with another preprocessing",
        "preprocessing",
        best.advice,
        serious=True,
    )


def _list_attempts(given: object, samples: Sequence[Sample]) -> Iterator[_Attempt]:
    """Other preprocessings of images; of arrays of colour images, swapped colours."""
    if isinstance(given, Preprocess):
        for other in _list_alternatives(given):
            yield _Attempt(
                f"use {describe_values(other)}, or the values from training",
                lambda array, other=other: _preprocess_again(array, given, other),  # type: ignore[misc]
            )
    elif given is None:
        shapes = {array.shape for sample in samples[:1] for array in sample.feed.values()}
        axes = [
            axis for shape in shapes for axis in (1, 3) if len(shape) == 4 and shape[axis] == _RGB
        ]
        if len(shapes) == len(axes) == 1:
            (axis,) = axes
            yield _Attempt(
                "reverse the colour channels of the arrays (RGB for BGR, or BGR for RGB)",
                lambda array: np.ascontiguousarray(np.flip(array, axis)),
            )


def _predict(
    engine: Engine,
    samples: Sequence[Sample],
    output: int,
    apply: Callable[[NDArray[Any]], NDArray[Any]],
) -> list[int]:
    """The model's top class of each sample with another preprocessing; -1 if the output has no scores."""
    predicted = []
    for sample in samples:
        scores = engine({name: apply(array) for name, array in sample.feed.items()})[output]
        predicted.append(int(scores.reshape(-1).argmax()) if is_scores(scores) else -1)
    return predicted


def _are_accepted(predicted: Sequence[int], samples: Sequence[Sample]) -> NDArray[np.bool_]:
    return np.array([p in s.labels for p, s in zip(predicted, samples, strict=True)], bool)


def describe_values(preprocess: Preprocess) -> str:
    """Channels, scale, mean and std of a preprocessing, as ``channels BGR, scale 1, mean 0.5``."""
    values = [f"channels {preprocess.channels}"] if preprocess.channels is not None else []
    scale = 1.0 if preprocess.scale is None else preprocess.scale
    values.append("scale 1/255" if scale == 1 / 255 else f"scale {scale:.10g}")
    for name, numbers in (("mean", preprocess.mean), ("std", preprocess.std)):
        if numbers is not None:
            values.append(f"{name} {','.join(f'{v:g}' for v in numbers)}")
    return ", ".join(values)


def _list_alternatives(given: Preprocess) -> Iterator[Preprocess]:
    colours = {"RGB": ("RGB", "BGR"), "BGR": ("BGR", "RGB")}.get(given.channels or "", ("GRAY",))
    scalings: list[tuple[float, Any, Any]] = [
        (given.scale or 1.0, given.mean, given.std),
        (1 / 255, given.mean, given.std),
        (1.0, given.mean, given.std),
        (1 / 255, None, None),
        (1.0, None, None),
        (1 / 255, (0.5,), (0.5,)),
    ]
    if len(colours) > 1:
        scalings.append((1 / 255, *IMAGENET_MEAN_STD))
    for order in colours:
        for scale, mean, std in scalings:
            reverse = order == "BGR"
            other = replace(
                given,
                channels=order,  # type: ignore[arg-type] # one of the names above
                scale=scale,
                mean=mean[::-1] if reverse and mean == IMAGENET_MEAN_STD[0] else mean,
                std=std[::-1] if reverse and std == IMAGENET_MEAN_STD[1] else std,
            )
            if other != given:
                yield other


def _preprocess_again(array: NDArray[Any], given: Preprocess, other: Preprocess) -> NDArray[Any]:
    """Convert an array of one preprocessing back to pixels, and preprocess it in another way."""
    if given == other:
        return array
    axis = array.ndim - (1 if given.layout == "NHWC" else 3)
    std = _broadcast_along(given.std, 1.0, array.ndim, axis)
    mean = _broadcast_along(given.mean, 0.0, array.ndim, axis)
    pixels = ((array * std) + mean) / (given.scale or 1.0)
    if given.channels != other.channels:
        pixels = np.flip(pixels, axis)
    scaled = pixels * (1.0 if other.scale is None else other.scale)
    std = _broadcast_along(other.std, 1.0, array.ndim, axis)
    mean = _broadcast_along(other.mean, 0.0, array.ndim, axis)
    return np.ascontiguousarray((scaled - mean) / std, array.dtype)


def _broadcast_along(
    values: tuple[float, ...] | None, default: float, rank: int, axis: int
) -> NDArray[np.float64]:
    shape = [1] * rank
    shape[axis] = -1
    return np.array(values or (default,), np.float64).reshape(shape)
