"""Models in training mode, as ONNX defines it for BatchNormalization and Dropout."""

from __future__ import annotations

import numpy as np
from networks import build_network

from ptq.evaluation.mode_check import check_mode
from ptq.model.graph import Graph

NORMALIZE = "b{more} = BatchNormalization<training_mode = {mode}>(x, one, one, one, one)\n"
DROP = "y = Dropout(b, ratio, {mode})"


def graph(training: bool) -> Graph:
    nodes = NORMALIZE.format(more=", m, v" if training else "", mode=int(training))
    nodes += DROP.format(mode="on" if training else "off")
    given = {"one": np.ones(2, np.float32), "ratio": np.float32(0.5)}
    return Graph.from_proto(
        build_network(nodes, {"x": (1, 2, 4)}, on=np.array(True), off=np.array(False), **given)
    )


def test_a_model_in_training_mode_is_a_serious_warning() -> None:
    [found] = check_mode(graph(training=True))
    assert found.serious
    assert str(found).startswith(
        "the model: exported in training mode (1 BatchNormalization, 1 Dropout)"
    )
    assert found.advice.startswith("put it into evaluation mode")


def test_a_model_for_inference_is_none() -> None:
    assert list(check_mode(graph(training=False))) == []
