"""Files on which LiteRT ends its process are refused; the oracle is a process of its own that loads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import UnsupportedError

pytest.importorskip("ai_edge_litert", reason="the extra litert is not installed")

import flatbuffers

from ptq.model.tflite.crashes import refuse_crashes
from ptq.model.tflite.interpreter import LitertModel, parse_model
from ptq.model.tflite.schema import IDENTIFIER, load_schema

SHAPES = {"x": (1, 4, 4, 4), "z": (1, 4, 4, 4)}
DATA = {name: gaussian_array(8, 4, 4, 4, seed=at) for at, name in enumerate(SHAPES)}
SUM = "y = Add(x, z)"
COMPARISON = "c = Greater(x, z)\ny = Where(c, x, z)"
LOAD = (
    "import sys; from ai_edge_litert.interpreter import Interpreter as I; "
    "i = I(model_path=sys.argv[1]); i.allocate_tensors(); i.invoke()"
)


def write(text: str, inputs: float, output: float, target: str = "litert") -> bytes:
    """A file with these scales of all inputs and outputs of the operators on integers."""
    model = build_network(text, SHAPES, ("y",), opset=19)
    made = ptq.quantize(
        model, DATA, target=target, form="tflite", effort="fast", threads=1, force=True
    )
    parsed, schema = parse_model(made.tflite), load_schema()
    [graph] = parsed.subgraphs
    for tensor in graph.tensors:
        if tensor.type in (schema.TensorType.INT8, schema.TensorType.INT16):
            scale = output if tensor.name.startswith(b"y") and text == SUM else inputs
            tensor.quantization.scale = np.array([scale], np.float32)
    builder = flatbuffers.Builder(1024)
    builder.Finish(parsed.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def ends_the_process(content: bytes, folder: Path) -> bool:
    """Whether a process that loads and runs the file is killed."""
    (folder / "m.tflite").write_bytes(content)
    command = [sys.executable, "-c", LOAD, str(folder / "m.tflite")]
    return subprocess.run(command, capture_output=True, check=False).returncode < 0


@pytest.mark.parametrize(
    ("text", "target", "inputs", "output"),
    [
        (SUM, "litert", 1.0, 2.0**-19),
        (SUM, "litert", 1.0, 1.001 * 2.0**-19),
        (SUM, "litert-a16", 0.6, 0.6 * 2.0**-14),
        (SUM, "litert-a16", 0.6, 0.601 * 2.0**-14),
        (COMPARISON, "litert", 1.0, 1.0),
        (COMPARISON, "litert", 0.999, 0.999),
        (COMPARISON, "litert", 1.001, 1.001),
    ],
)
def test_a_file_is_refused_if_and_only_if_litert_would_end_the_process(
    text: str, target: str, inputs: float, output: float, tmp_path: Path
) -> None:
    content = write(text, inputs, output, target)
    if not ends_the_process(content, tmp_path):
        LitertModel(content)
        return
    with pytest.raises(UnsupportedError, match=r"LiteRT cannot (add|compare) integers of scale"):
        LitertModel(content)


def test_scales_do_not_refuse_a_sum_of_integers_in_float() -> None:
    parsed, schema = parse_model(write(SUM, 1.0, 2.0**-19)), load_schema()
    [graph] = parsed.subgraphs
    for tensor in graph.tensors:
        if tensor.name.startswith(b"y") and tensor.type == schema.TensorType.INT8:
            tensor.type = schema.TensorType.FLOAT32
    refuse_crashes(parsed, schema, reference=False)


@pytest.mark.parametrize("target", ["litert", "litert-a16"])
def test_a_tensor_that_is_always_zero_gives_a_file_that_loads(target: str) -> None:
    model = build_network("a = Add(x, z)\ny = Tanh(a)", SHAPES, ("y",))
    data = {"x": DATA["x"] * np.float32(0), "z": DATA["z"] * np.float32(1e-7)}
    made = ptq.quantize(
        model, data, target=target, form="tflite", effort="fast", threads=1, force=True
    )
    found = LitertModel(made.tflite).run({name: rows[:1] for name, rows in data.items()})["y"]
    np.testing.assert_allclose(found, np.tanh(data["z"][:1]), atol=1e-8)
