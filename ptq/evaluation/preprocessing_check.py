"""Are images prepared as the float model was trained with, or would another way suit it far better?

Asked only where the float model gets many labelled samples wrong. The usual mistakes are tried on some of them:
colours in the other order, 0 … 255 for 0 … 1 and back, mean and standard deviation left out. The arrays that are fed
are taken back to pixels and prepared anew; only a difference that chance does not make is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data import Preprocess, Sample, Samples
from ptq.data.preprocess import IMAGENET_MEAN_STD
from ptq.evaluation import intervals
from ptq.evaluation.metrics import is_scores
from ptq.evaluation.report import Diagnosis
from ptq.model.session import Session

LOW_ACCURACY = 0.6  # top-1 accuracy below which the question is worth a few runs
MAX_SAMPLES = 64
MIN_GAIN = 0.15
SIGNIFICANCE_LEVEL = 1e-4


@dataclass(frozen=True)
class _Attempt:
    preprocess: Preprocess
    correct: NDArray[np.bool_]


def find_better_preprocessing(session: Session, samples: Samples, output: int) -> Diagnosis | None:
    """The better way to prepare images, if there is one that stands out.

    Args:
        session: The float model.
        samples: Labelled images.
        output: The position of the output that holds the scores.

    Raises:
        DataError: A sample is bad, or the model fails on it.
    """
    given = samples.preprocess
    if given is None or len(session.inputs) != 1:
        return None
    some = [sample for sample in samples.spread(MAX_SAMPLES) if sample.labels]
    if len(some) < 8:
        return None
    now = _correct_predictions(session, some, given, given, output)
    others = [
        _Attempt(way, _correct_predictions(session, some, given, way, output))
        for way in _alternatives(given)
    ]
    best = max(others, key=lambda tried: int(tried.correct.sum()))
    gained, lost = int((best.correct & ~now).sum()), int((now & ~best.correct).sum())
    if gained - lost < MIN_GAIN * len(some) or intervals.mcnemar(lost, gained) > SIGNIFICANCE_LEVEL:
        return None
    return Diagnosis(
        f"the float model gets {now.sum()} of {len(some)} right, and {best.correct.sum()} "
        "with images prepared otherwise",
        "preprocessing",
        f"use {to_cli_options(best.preprocess)}, or the values that the model was trained with",
    )


def to_cli_options(way: Preprocess) -> str:
    """What to say on the command line for values and colours."""
    parts = [f"--channels {way.channels}"] if way.channels is not None else []
    scale = 1.0 if way.scale is None else way.scale
    parts.append(f"--scale {scale:.10g}")
    for option, values in (("mean", way.mean), ("std", way.std)):
        if values is not None:
            parts.append(f"--{option} {','.join(f'{v:g}' for v in values)}")
    return " ".join(parts)


def _alternatives(given: Preprocess) -> Iterator[Preprocess]:
    """The other ways to try, each once."""
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
            turned = order == "BGR"
            way = replace(
                given,
                channels=order,  # type: ignore[arg-type] # one of the three names above
                scale=scale,
                mean=mean[::-1] if turned and mean == IMAGENET_MEAN_STD[0] else mean,
                std=std[::-1] if turned and std == IMAGENET_MEAN_STD[1] else std,
            )
            if way != given:
                yield way


def _correct_predictions(
    session: Session, samples: list[Sample], given: Preprocess, way: Preprocess, output: int
) -> NDArray[np.bool_]:
    right = []
    for sample in samples:
        feed = {name: _preprocess_again(array, given, way) for name, array in sample.feed.items()}
        scores = session.run(feed)[output]
        right.append(is_scores(scores) and int(scores.reshape(-1).argmax()) in sample.labels)
    return np.array(right, bool)


def _preprocess_again(array: NDArray[Any], given: Preprocess, way: Preprocess) -> NDArray[Any]:
    """An image as another way would have made it."""
    if given == way:
        return array
    axis = array.ndim - (1 if given.layout == "NHWC" else 3)
    pixels = (array * _broadcast_along(given.std, 1.0, array.ndim, axis)) + _broadcast_along(
        given.mean, 0.0, array.ndim, axis
    )
    pixels = pixels / (given.scale or 1.0)
    if given.channels != way.channels:
        pixels = np.flip(pixels, axis)
    scaled = pixels * (1.0 if way.scale is None else way.scale)
    made = (scaled - _broadcast_along(way.mean, 0.0, array.ndim, axis)) / _broadcast_along(
        way.std, 1.0, array.ndim, axis
    )
    return np.ascontiguousarray(made, array.dtype)


def _broadcast_along(
    values: tuple[float, ...] | None, default: float, rank: int, axis: int
) -> NDArray[np.float64]:
    shape = [1] * rank
    shape[axis] = -1
    return np.array(values or (default,), np.float64).reshape(shape)
