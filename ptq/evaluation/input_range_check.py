"""Do samples reach the model's first BatchNormalization as those did that it was trained on?

Its running mean and variance say, channel by channel, what it saw in training: without any label they tell inputs on
another scale from those that the model expects. A model whose normalizations are folded does not say.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import ModelError
from ptq.core.run_options import DEFAULT_RUN, RunOptions
from ptq.data import Sample, Samples
from ptq.evaluation.report import Diagnosis
from ptq.model.graph import Graph
from ptq.model.node import attributes_of, constant_of, name_of, operator_of
from ptq.model.session import Session

MAX_SAMPLES = 16
MAX_VARIANCE_RATIO = 4.0
"""How many times the variance of training, or a fraction of it, is out of all chance."""
MAX_MEAN_DISTANCE = 3.0
"""Standard deviations from the mean of training that are."""


def check_input_statistics(
    graph: Graph, samples: Samples, *, run: RunOptions = DEFAULT_RUN
) -> Diagnosis | None:
    """What is wrong with the samples, if they are far from what the model was trained on.

    Args:
        graph: The float model as given.
        samples: Any of those that it shall serve.
        run: How the job runs.

    Raises:
        DataError: A sample is bad, or the model fails on it.
    """
    found = next((n for n in graph.nodes if operator_of(n) == "BatchNormalization"), None)
    if found is None or found.inputs[0] is None:
        return None
    mean, variance = (constant_of(value) for value in found.inputs[3:5])
    if mean is None or variance is None:
        return None
    try:
        read = _TensorReader(graph, name_of(found.inputs[0]), run)
    except ModelError:  # ONNX Runtime lacks an operator of the model as given
        return None
    seen = [_channel_moments(read(sample)) for sample in samples.spread(MAX_SAMPLES)]
    first, second = np.mean(seen, axis=0) if seen else (mean, variance + mean**2)
    spread = variance.astype(np.float64) + float(attributes_of(found).get("epsilon", 1e-5))
    wider = float(np.median((second - first**2) / spread))
    away = float(np.median(np.abs(first - mean) / np.sqrt(spread)))
    if 1 / MAX_VARIANCE_RATIO < wider < MAX_VARIANCE_RATIO and away < MAX_MEAN_DISTANCE:
        return None
    return Diagnosis(
        f"samples reach it with {wider:.3g} times the variance that the model was trained with, {away:.1f} standard "
        "deviations from its mean",
        f"{name_of(found.inputs[0])}, which the first BatchNormalization reads",
        "prepare samples as for training; for images see --scale, --mean and --std",
    )


class _TensorReader:
    """Reads a tensor off samples: one that is fed, or one that the nodes before it compute."""

    def __init__(self, graph: Graph, name: str, run: RunOptions) -> None:
        self._name, self._session = name, None
        if not any(value.name == name for value in graph.inputs):
            before = graph.copy()
            before.add_outputs([name])
            outputs = before.model.graph.outputs
            outputs[:] = [value for value in outputs if value.name == name]
            before.remove_unused()
            self._session = Session.for_check(before, threads=run.threads)

    def __call__(self, sample: Sample) -> NDArray[Any]:
        if self._session is None:
            return sample.feed[self._name]
        read: NDArray[Any] = self._session.run(sample.feed)[0]
        return read


def _channel_moments(array: NDArray[Any]) -> NDArray[np.float64]:
    """E[x] and E[x²] of every channel, the second axis."""
    real = np.moveaxis(array.astype(np.float64), 1, 0).reshape(array.shape[1], -1)
    return np.stack([real.mean(axis=1), np.square(real).mean(axis=1)])
