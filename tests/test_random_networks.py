"""Random networks through the whole stack; ONNX Runtime is the oracle of every integer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from networks import find_disagreements, quantize_network, random_feeds
from random_networks import BOUNDED_SETTINGS, network_strategy

from ptq.core.targets import TARGETS
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.session.session import Session


@BOUNDED_SETTINGS
@given(network_strategy())
def test_any_network_is_the_same_integers_in_every_form_and_in_onnx_runtime(
    model: onnx.ModelProto,
) -> None:
    assert find_disagreements(quantize_network(model)) == []


@pytest.mark.parametrize("target", ["litert", "tensorrt"])
@settings(BOUNDED_SETTINGS, max_examples=10)
@given(network_strategy())
def test_any_network_quantized_for_another_target_runs_and_keeps_its_outputs(
    target: str, model: onnx.ModelProto
) -> None:
    done = quantize_network(model, target=target)
    feed = random_feeds(model, 1)[0]
    before = Session(Graph.from_proto(model), threads=1).run(feed)
    for outputs in (
        Session(done.qdq, threads=1, optimize="none").run(feed),
        [
            *map(
                Executor(done.qdq, TARGETS[target].arithmetic).run(feed).__getitem__,
                (v.name for v in done.qdq.outputs),
            )
        ],
    ):
        assert [(o.dtype, o.shape) for o in outputs] == [(o.dtype, o.shape) for o in before]
        assert all(np.isfinite(o).all() for o in outputs)
