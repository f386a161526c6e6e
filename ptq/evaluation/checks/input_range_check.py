"""Comparison of samples with the input statistics of the model's first BatchNormalization.

Its running mean and variance are, for each channel, the statistics of its input in training. So inputs on another
scale are found without labels. A model whose normalizations are folded does not have these statistics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.run_options import RunOptions
from ptq.data import Sample, Samples
from ptq.evaluation.diagnosis import Diagnosis
from ptq.model.graph import Graph
from ptq.model.node import get_attributes, get_constant, get_name, get_operator
from ptq.model.session.exposed_session import with_extra_outputs
from ptq.model.session.session import Session

MAX_SAMPLES = 16
MAX_VARIANCE_RATIO = 4.0
"""A variance this many times larger or smaller than in training is not chance."""
MAX_MEAN_DISTANCE = 3.0
"""A mean this many standard deviations from the mean in training is not chance."""


def check_input_statistics(graph: Graph, samples: Samples, *, run: RunOptions) -> Diagnosis | None:
    """Diagnose samples that are far from the training data; None if they are not.

    Args:
        graph: The original float model.
        samples: Calibration or evaluation samples.
        run: How the job runs.

    Raises:
        DataError: A sample is bad, or the model fails on it.
    """
    norm = next((n for n in graph.nodes if get_operator(n) == "BatchNormalization"), None)
    if norm is None or norm.inputs[0] is None:
        return None
    mean, variance = (get_constant(value) for value in norm.inputs[3:5])
    if mean is None or variance is None:
        return None
    try:
        read = _TensorReader(graph, get_name(norm.inputs[0]), run)
    except ModelError:  # ONNX Runtime lacks an operator of the original model
        return None
    moments = [_compute_channel_moments(read(sample)) for sample in samples.spread(MAX_SAMPLES)]
    first, second = np.mean(moments, axis=0) if moments else (mean, variance + mean**2)
    expected = variance.astype(np.float64) + float(get_attributes(norm).get("epsilon", 1e-5))
    ratio = float(np.median((second - first**2) / expected))
    distance = float(np.median(np.abs(first - mean) / np.sqrt(expected)))
    if 1 / MAX_VARIANCE_RATIO < ratio < MAX_VARIANCE_RATIO and distance < MAX_MEAN_DISTANCE:
        return None
    return Diagnosis(
        f"on these samples its variance is {ratio:.3g} times that in training, and its mean is {distance:.1f} "
        "standard deviations from that in training",
        f"{get_name(norm.inputs[0])} (input of the first BatchNormalization)",
        "preprocess samples as in training; for images give scale, mean and std",
    )


class _TensorReader:
    """Reads one tensor for a sample: a model input, or the result of the nodes before it."""

    def __init__(self, graph: Graph, name: str, run: RunOptions) -> None:
        self._name, self._session = name, None
        if not any(value.name == name for value in graph.inputs):
            prefix = with_extra_outputs(graph, [name])
            outputs = prefix.model.graph.outputs
            outputs[:] = [value for value in outputs if value.name == name]
            prefix.remove_unused()
            self._session = Session.for_check(prefix, threads=run.threads)

    def __call__(self, sample: Sample) -> NDArray[Any]:
        if self._session is None:
            return sample.feed[self._name]
        array: NDArray[Any] = self._session.run(sample.feed)[0]
        return array


def _compute_channel_moments(array: NDArray[Any]) -> NDArray[np.float64]:
    """E[x] and E[x²] of every channel (axis 1), shape (2, channels)."""
    real = np.moveaxis(array.astype(np.float64), 1, 0).reshape(array.shape[1], -1)
    return np.stack([real.mean(axis=1), np.square(real).mean(axis=1)])
