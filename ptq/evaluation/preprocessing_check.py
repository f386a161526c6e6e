"""Doubts about the preprocessing of samples, for every verb that measures accuracy.

A better preprocessing of images is searched for only if the reference model gets many labelled samples wrong. The
search tries the usual mistakes on some samples: swapped colours, 0 … 255 instead of 0 … 1 and the reverse, missing
mean and standard deviation. Arrays are converted back to pixels and preprocessed again. Only a significant difference
is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data import Preprocess, Sample, Samples
from ptq.data.preprocess import IMAGENET_MEAN_STD
from ptq.evaluation import intervals
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.engines import Engine
from ptq.evaluation.measurements import Evaluation
from ptq.evaluation.metrics import is_scores

LOW_ACCURACY = 0.6
"""The search runs below this top-1 accuracy."""
MAX_SAMPLES = 64
MIN_GAIN = 0.15
SIGNIFICANCE_LEVEL = 1e-4


@dataclass(frozen=True)
class _Attempt:
    preprocess: Preprocess
    correct: NDArray[np.bool_]


def explain_low_accuracy(
    evaluation: Evaluation,
    samples: Samples,
    outputs: Sequence[str],
    open_engine: Callable[[], Engine],
    model: str = "the float model",
) -> tuple[Diagnosis, ...]:
    """What an evaluation found, or the better preprocessing of images that explains it.

    The search runs if the reference model is often wrong, and nothing serious was found.

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
    known = evaluation.suspects
    explained = any(suspect.serious for suspect in known)
    if accuracy is None or accuracy.top1 >= LOW_ACCURACY or explained:
        return known
    position = outputs.index(evaluation.head)
    found = find_better_preprocessing(open_engine(), samples, position, model)
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
    engine: Engine, samples: Samples, output: int, model: str = "the float model"
) -> Diagnosis | None:
    """Find a significantly better preprocessing; None if there is none.

    Args:
        engine: The model.
        samples: Labelled images.
        output: Position of the output with class scores.
        model: What the diagnosis calls the model.

    Raises:
        DataError: A sample is bad, or the model fails on it.
    """
    given = samples.preprocess
    if not isinstance(given, Preprocess):
        return None
    labelled = [sample for sample in samples.spread(MAX_SAMPLES) if sample.labels]
    if len(labelled) < 8:
        return None
    correct = _correct_predictions(engine, labelled, given, given, output)
    attempts = [
        _Attempt(other, _correct_predictions(engine, labelled, given, other, output))
        for other in _alternatives(given)
    ]
    best = max(attempts, key=lambda attempt: int(attempt.correct.sum()))
    gained, lost = int((best.correct & ~correct).sum()), int((correct & ~best.correct).sum())
    if (
        gained - lost < MIN_GAIN * len(labelled)
        or intervals.mcnemar(lost, gained) > SIGNIFICANCE_LEVEL
    ):
        return None
    return Diagnosis(
        f"{model} gets {correct.sum()} of {len(labelled)} samples right, but {best.correct.sum()} "
        "with another preprocessing",
        "preprocessing",
        f"use {describe_values(best.preprocess)}, or the values from training",
        serious=True,
    )


def describe_values(preprocess: Preprocess) -> str:
    """Channels, scale, mean and std of a preprocessing, as ``channels BGR, scale 1, mean 0.5``."""
    values = [f"channels {preprocess.channels}"] if preprocess.channels is not None else []
    scale = 1.0 if preprocess.scale is None else preprocess.scale
    values.append(f"scale {scale:.10g}")
    for name, numbers in (("mean", preprocess.mean), ("std", preprocess.std)):
        if numbers is not None:
            values.append(f"{name} {','.join(f'{v:g}' for v in numbers)}")
    return ", ".join(values)


def _alternatives(given: Preprocess) -> Iterator[Preprocess]:
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


def _correct_predictions(
    engine: Engine, samples: list[Sample], given: Preprocess, other: Preprocess, output: int
) -> NDArray[np.bool_]:
    """Whether the model's top class is accepted, by sample, with another preprocessing than the given one."""
    correct = []
    for sample in samples:
        feed = {name: _preprocess_again(array, given, other) for name, array in sample.feed.items()}
        scores = engine(feed)[output]
        correct.append(is_scores(scores) and int(scores.reshape(-1).argmax()) in sample.labels)
    return np.array(correct, bool)


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
