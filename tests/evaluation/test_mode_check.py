"""Models in training mode, as ONNX defines it for BatchNormalization."""

from __future__ import annotations

import numpy as np
from networks import build_network

from ptq.evaluation.checks.mode_check import check_mode
from ptq.model.graph import Graph

NORMALIZE = "y{more} = BatchNormalization<training_mode = {mode}>(x, one, one, one, one)"


def graph(training: bool) -> Graph:
    nodes = NORMALIZE.format(more=", m, v" if training else "", mode=int(training))
    return Graph.from_proto(build_network(nodes, {"x": (1, 2, 4)}, one=np.ones(2, np.float32)))


def test_a_model_in_training_mode_is_a_serious_warning() -> None:
    [found] = check_mode(graph(training=True))
    assert found.serious
    assert str(found).startswith("the model: exported in training mode (1 BatchNormalization)")


def test_a_model_for_inference_is_none() -> None:
    assert list(check_mode(graph(training=False))) == []
