"""Oracle: the same feed run at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cases import quantized_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from networks import gaussian_array, quantize_network, random_feeds
from networks_of_layers import LAYER_CASES
from networks_of_rows import OTHER_OP_CASES
from parts import conv_network
from random_networks import BOUNDED_SETTINGS, network_strategy

from ptq.core.errors import PtqError
from ptq.core.targets import TARGETS
from ptq.executor.executor import Executor
from ptq.executor.float_islands import FloatIsland
from ptq.kernels import thread_pool
from ptq.model.session.session import Session

Feed = dict[str, Any]

SAMPLE = Path(__file__).parents[2] / "sample_data" / "fashion_mobilenet.onnx"


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads on any machine, and no network is too small for them."""
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: 3)
    monkeypatch.setattr(thread_pool, "MIN_PARALLEL_NANOSECONDS", 0)


def together(executor: Executor, feed: Feed) -> set[str]:
    """The operators that a second run takes all rows to at once; it equals the first."""
    expected = executor.run(feed)
    segments = executor._batch_segments.find_segments(feed)
    assert segments is not None
    again = executor.run(feed)
    for name, array in expected.items():
        assert (array.dtype, array.shape) == (again[name].dtype, again[name].shape)
        assert array.tobytes() == again[name].tobytes()
    steps = executor.program.steps
    at_once = [steps[i] for segment in segments if not segment.split_batch() for i in segment.steps]
    return {"island" if isinstance(step, FloatIsland) else step.op for step in at_once}


def stacked(these: list[Feed]) -> Feed:
    return {name: np.concatenate([feed[name] for feed in these]) for name in these[0]}


def test_the_rows_of_most_networks_go_in_pieces_to_the_same_bits() -> None:
    left = {}
    for name in {**LAYER_CASES, **OTHER_OP_CASES}:
        done = quantized_case(name, "litert")
        if any(array.ndim == 0 for array in done.feeds[0].values()):
            continue
        executor, feed = Executor(done.qdq, "litert"), stacked(done.feeds)
        try:
            executor.run(feed)
        except (PtqError, ValueError):  # the network fixes its batch
            continue
        left[name] = together(executor, feed)
    assert len(left) > 60
    assert {name: ops for name, ops in left.items() if ops} == {
        "matmul by a vector": {"MatMul"},
        "unsqueeze": {"Unsqueeze", "DequantizeLinear"},
    }


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_images_of_the_sample_model_go_in_pieces_to_the_same_bits(target: str) -> None:
    model = onnx.load(SAMPLE)
    done = quantize_network(model, target=target)
    executor = Executor(done.qdq, TARGETS[target].arithmetic)
    floats = {
        "ort": {"island"},
        "litert": set(),
    }  # those that ONNX Runtime computes faster in float
    assert together(executor, stacked(random_feeds(model, 5))) == floats[target]
    executor.run(done.feeds[0])
    assert executor._batch_segments.find_segments(done.feeds[0]) is None  # one row is not divided


@settings(
    BOUNDED_SETTINGS,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(model=network_strategy(), rows=st.integers(2, 7), target=st.sampled_from(["ort", "litert"]))
def test_any_network_in_pieces_is_the_same_bits(model: Any, rows: int, target: str) -> None:
    done = quantize_network(model, target=target)
    executor = Executor(done.qdq, TARGETS[target].arithmetic)
    try:
        executor.run(stacked(random_feeds(model, rows)))
    except (PtqError, ValueError):  # the network fixes its batch
        return
    together(executor, stacked(random_feeds(model, rows, seed=1)))


@pytest.mark.parametrize(
    ("op", "nodes", "weights"),
    [
        ("Softmax", "y = Softmax<axis=0>(c)", {}),
        ("Transpose", "y = Transpose<perm=[1,0,2,3]>(c)", {}),
        ("Flatten", "f = Flatten<axis=3>(c)\ny = Relu(f)", {}),
        (
            "Reshape",
            "r = Reshape(c, s)\ny = MatMul(r, m)",
            {"s": np.array([-1, 16]), "m": gaussian_array(16, 4)},
        ),
        ("ReduceMax", "y = ReduceMax<axes=[0]>(c)", {}),
        ("Mul", "y = Mul(c, k)", {"k": gaussian_array(8, 1, 1, 1)}),
        ("Concat", "y = Concat<axis=0>(c, c)", {}),
    ],
)
def test_rows_that_meet_stay_together(op: str, nodes: str, weights: Feed) -> None:
    done = quantize_network(
        conv_network(nodes, inputs={"x": (8, 3, 8, 8)}, **weights), target="litert"
    )
    executor = Executor(done.qdq, "litert")
    assert op in together(executor, done.feeds[0])


@pytest.mark.parametrize("skip", ["Conv_t", "Add_s"])
def test_rows_go_in_pieces_before_and_after_an_island(skip: str) -> None:
    body = "p = MaxPool<kernel_shape=[2,2]>(c)\nt = Conv(p, k)\ns = Add(t, p)\ny = Conv(s, k)"
    model = conv_network(body, inputs={"x": ("n", 3, 8, 8)}, k=gaussian_array(8, 8, 1, 1))
    done = quantize_network(model, random_feeds(model), skip=[skip])
    executor, feed = Executor(done.qdq), stacked(random_feeds(model, 7))
    assert together(executor, feed) == {"island"}
    expected = Session(done.qdq, threads=1).run(feed)[0]
    assert np.array_equal(executor.run(feed)["y"], expected)


def test_rows_that_values_choose_are_not_lost() -> None:
    body = (
        "m = ReduceMax<keepdims=0, axes=[1,2,3]>(x)\nd = Concat<axis=0>(m, m)\nk = Greater(d, zero)\n"
        "t = Concat<axis=0>(c, c)\ns = Compress<axis=0>(t, k)\ny = Conv(s, v)"
    )
    constants = {"zero": np.float32(0.0), "v": gaussian_array(8, 8, 1, 1)}
    model = conv_network(body, inputs={"x": ("n", 3, 8, 8)}, **constants)
    done = quantize_network(model, random_feeds(model))
    executor, feed = Executor(done.qdq), stacked(random_feeds(model, 4))
    half = {"x": np.where(np.arange(4)[:, None, None, None] < 2, feed["x"], -1.0)}
    half["x"] = half["x"].astype(np.float32)
    executor.run(half)  # four rows of eight are left, as many as there are
    assert executor.run(feed)["y"].shape[0] == 8
    assert np.array_equal(executor.run(feed)["y"], Executor(done.qdq).run(feed)["y"])
