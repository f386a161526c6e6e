"""Oracle: the same feed run at once, on one thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from cases import quantized_case
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from networks import feeds, normal, quantized
from networks_of_layers import LAYERS
from networks_of_rows import ROWS
from parts import convolved
from random_networks import networks

from ptq.errors import PtqError
from ptq.execute import Executor
from ptq.kernels import workers
from ptq.targets import TARGETS

Feed = dict[str, Any]

SAMPLE = Path(__file__).parents[2] / "sample_data" / "fashion_mobilenet.onnx"


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads on any machine, and no network is too small for them."""
    monkeypatch.setattr(workers, "threads", lambda: 3)
    monkeypatch.setattr(workers, "WORTHWHILE", 0)


def side_by_side(executor: Executor, feed: Feed, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a second run of the feed went in pieces; it equals one at once on one thread."""
    expected = executor.run(feed)
    rows: list[int] = []
    once = executor._run

    def noted(piece: Feed, *more: Any, **named: Any) -> Any:
        rows.append(min(len(array) for array in piece.values()))
        return once(piece, *more, **named)

    with monkeypatch.context() as patch:
        patch.setattr(executor, "_run", noted)
        again = executor.run(feed)
    for name, array in expected.items():
        assert (array.dtype, array.shape) == (again[name].dtype, again[name].shape)
        assert array.tobytes() == again[name].tobytes()
    return len(rows) > 1


def stacked(these: list[Feed]) -> Feed:
    return {name: np.concatenate([feed[name] for feed in these]) for name in these[0]}


def test_the_rows_of_most_networks_go_in_pieces_to_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pieces = {}
    for name in {**LAYERS, **ROWS}:
        done = quantized_case(name, "litert")
        if any(array.ndim == 0 for array in done.feeds[0].values()):
            continue
        executor, feed = Executor(done.qdq, "litert"), stacked(done.feeds)
        try:
            executor.run(feed)
        except (PtqError, ValueError):  # the network fixes its batch
            continue
        pieces[name] = side_by_side(executor, feed, monkeypatch)
    assert len(pieces) > 60
    assert {name for name, found in pieces.items() if not found} == {
        "matmul by a vector",
        "unsqueeze",
    }


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_images_of_the_sample_model_go_in_pieces_to_the_same_bits(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load(SAMPLE)
    done = quantized(model, target=target)
    executor = Executor(done.qdq, TARGETS[target].arithmetic)
    executor.run(done.feeds[0])  # what is learned of one image holds for several
    assert side_by_side(executor, stacked(feeds(model, 5)), monkeypatch)
    assert not side_by_side(executor, done.feeds[0], monkeypatch)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=20,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(model=networks(), rows=st.integers(2, 7), target=st.sampled_from(["ort", "litert"]))
def test_any_network_in_pieces_is_the_same_bits(
    model: Any, rows: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = quantized(model, target=target)
    executor = Executor(done.qdq, TARGETS[target].arithmetic)
    try:
        executor.run(stacked(feeds(model, rows)))
    except (PtqError, ValueError):  # the network fixes its batch
        return
    side_by_side(executor, stacked(feeds(model, rows, seed=1)), monkeypatch)


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        ("y = Softmax<axis=0>(c)", {}),
        ("y = Transpose<perm=[1,0,2,3]>(c)", {}),
        ("f = Flatten<axis=3>(c)\ny = Relu(f)", {}),
        ("r = Reshape(c, s)\ny = MatMul(r, m)", {"s": np.array([-1, 16]), "m": normal(16, 4)}),
        ("y = ReduceMax<axes=[0]>(c)", {}),
        ("y = Mul(c, k)", {"k": normal(8, 1, 1, 1)}),
        ("y = Concat<axis=0>(c, c)", {}),
        ("t = Transpose<perm=[1,0,2,3]>(c)\ny = MatMul(c, t)", {}),
    ],
)
def test_rows_that_meet_stay_together(
    nodes: str, weights: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = quantized(convolved(nodes, inputs={"x": (8, 3, 8, 8)}, **weights), target="litert")
    executor = Executor(done.qdq, "litert")
    assert not {*executor.islands} - executor.tables
    assert not side_by_side(executor, done.feeds[0], monkeypatch)
