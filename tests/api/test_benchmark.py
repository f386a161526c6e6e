"""The verb ``benchmark``: models timed in turns on the same inputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import DataError, ModelError, UsageError
from ptq.core.memory import can_measure_memory
from ptq.data.input_spec import InputSpec
from ptq.data.made_inputs import LENGTH, SIDE, make_feed

SMALL = """<ir_version: 8, opset_import: ["" : 17]>
small (float[N, 8] x) => (float[N, 8] y) { y = Relu(x) }"""


def make_model(width: int, repeats: int = 1) -> onnx.ModelProto:
    """A chain of products, whose time grows with their number."""
    weight = np.eye(width, dtype=np.float32)
    body = " ".join(f"y{k} = MatMul(y{k - 1}, w)" for k in range(1, repeats + 1))
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> f (float[N, {width}] y0) => '
        f"(float[N, {width}] y{repeats}) {{ {body} }}"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    return model


def test_the_speed_is_relative_to_the_first_model_and_has_an_interval() -> None:
    slow, fast = make_model(512, 24), make_model(512, 3)
    found = ptq.benchmark(
        [slow, fast], {"y0": np.ones((4, 512), np.float32)}, seconds=0.3, threads=1
    )
    first, second = found.models
    assert (first.speed, first.speed_interval) == (None, None)
    assert second.speed is not None
    assert second.speed_interval is not None
    assert 2 < second.speed < 20  # eight times fewer products
    assert second.speed_interval[0] <= second.speed <= second.speed_interval[1]
    assert first.run_interval[0] <= first.run_ms <= first.run_interval[1]
    assert second.run_ms < first.run_ms
    assert first.load_ms > 0
    assert (found.samples, found.shapes) == (4, {"y0": (1, 512)})
    assert found.rounds >= 3


def test_one_model_alone_is_timed_on_inputs_made_from_its_shapes() -> None:
    found = ptq.benchmark(make_model(16), seconds=0.05)
    assert (found.samples, found.shapes) == (0, {"y0": (1, 16)})
    assert len(found.models) == 1
    assert found.models[0].peak_bytes is None  # it is in memory only


@pytest.mark.skipif(
    not can_measure_memory(), reason="this system does not say how much memory a process takes"
)
def test_the_peak_memory_is_that_of_a_process_of_its_own(tmp_path: Path) -> None:
    models = [tmp_path / "small.onnx", tmp_path / "large.onnx"]
    onnx.save(make_model(16), models[0])
    onnx.save(make_model(4096), models[1])  # 64 MB of weights
    x = np.ones((2, 16), np.float32)
    (small,) = ptq.benchmark([str(models[0])], {"y0": x}, seconds=0.05).models
    (large,) = ptq.benchmark([str(models[1])], seconds=0.05).models
    assert small.peak_bytes is not None
    assert large.peak_bytes is not None
    assert large.peak_bytes - small.peak_bytes > 60e6
    assert large.bytes == models[1].stat().st_size
    assert ptq.benchmark(str(models[0]), seconds=0.05, memory=False).models[0].peak_bytes is None


@pytest.mark.skipif(
    not can_measure_memory(), reason="this system does not say how much memory a process takes"
)
def test_the_peak_memory_depends_on_no_file_of_the_current_folder_and_on_no_name_of_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnx.py").write_text("raise SystemExit(3)")
    (tmp_path / "model.onnx").write_bytes(
        onnx.parser.parse_model(
            SMALL.replace("] x", "] file").replace("(x)", "(file)")
        ).SerializeToString()
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path / "other"])  # imports pass over a Path
    (found,) = ptq.benchmark("model.onnx", seconds=0.02).models
    assert found.peak_bytes is not None


def test_reasons_for_slow_integers_stand_with_the_quantized_model() -> None:
    model = make_model(64, 2)
    x = np.random.default_rng(0).normal(size=(40, 64)).astype(np.float32)
    quantized = ptq.quantize(model, {"y0": x}, force=True).model
    plain, integer = ptq.benchmark([model, quantized], seconds=0.05).models
    assert plain.slow == ()
    assert any("multiply at most 4 rows" in reason for reason in integer.slow)


def test_models_with_other_inputs_are_refused() -> None:
    other = onnx.parser.parse_model(SMALL)
    with pytest.raises(ModelError, match=r"has the inputs x float32, and the first model has y0 f"):
        ptq.benchmark([make_model(8), other])


def test_inputs_made_from_shapes_that_do_not_run_ask_for_samples() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> f (float[N, A] x, float[N, 7] z) => (float[N, 7] y)'
        "{ y = Add(x, z) }"
    )
    with pytest.raises(DataError, match=r"^inputs made from shapes: .*; give samples \(data\)$"):
        ptq.benchmark(model, seconds=0.05)


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ([], {}, "no model to time"),
        ("m.onnx", {"seconds": -1}, "seconds -1 is not a finite number of at least 0"),
        ("m.onnx", {"memory": "yes"}, "memory 'yes' is not"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    models: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ptq.benchmark(models, **options)


def test_made_inputs_fill_dynamic_sizes_by_their_place() -> None:
    feed = make_feed(
        [
            InputSpec("image", np.dtype("f4"), (None, 3, None, None)),
            InputSpec("tokens", np.dtype("i8"), (None, None)),
            InputSpec("fixed", np.dtype("f2"), (2, 5)),
            InputSpec("mask", np.dtype(bool), (None, 1)),
        ]
    )
    shapes = {name: array.shape for name, array in feed.items()}
    assert shapes == {
        "image": (1, 3, SIDE, SIDE), "tokens": (1, LENGTH), "fixed": (2, 5), "mask": (1, 1),
    }  # fmt: skip
    assert feed["tokens"].min() == feed["tokens"].max() == 1
    assert [a.dtype.str[1:] for a in feed.values()] == ["f4", "i8", "f2", "b1"]


def test_made_inputs_give_each_named_dimension_one_length() -> None:
    single = np.dtype("f4")
    feed = make_feed(
        [
            InputSpec("state", single, (2, None, 24)),
            InputSpec("x", single, (None, None, 16)),
            InputSpec("mask", single, (None, 1, None, None)),
            InputSpec("other", single, (None, 3, None, None)),
        ],
        {
            "state": (None, "batch", None),
            "x": ("batch", "time", None),
            "mask": ("batch", None, "time", "time"),
            "other": ("?", None, "?", "?"),
        },
    )
    assert {name: array.shape for name, array in feed.items()} == {
        "state": (2, 1, 24),
        "x": (1, LENGTH, 16),
        "mask": (1, 1, LENGTH, LENGTH),
        "other": (1, 3, SIDE, SIDE),
    }


def test_a_model_with_a_state_runs_on_made_inputs() -> None:
    nodes = "s = Squeeze(h, axes)\nc = Concat<axis = 1>(x, s)\ny = Gemm(c, w)"
    weights = {"axes": np.array([0]), "w": gaussian_array(6, 2)}
    model = build_network(nodes, {"x": ("b", 3), "h": (1, "b", 3)}, **weights)
    found = ptq.benchmark(model, seconds=0.01)
    assert found.shapes == {"x": (1, 3), "h": (1, 1, 3)}
