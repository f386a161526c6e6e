"""Oracle: the integers of both forms in ONNX Runtime, and the specification's own rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network
from ptq_cli.main import app
from typer.testing import CliRunner

import ptq
from ptq.model.graph import Graph
from ptq.model.session.session import Session

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_data"


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("quantized")
    images = SAMPLE / "images" / "calibration"
    paths = {}
    for target in ("ort", "litert"):
        result = ptq.quantize(
            SAMPLE / "fashion_mobilenet.onnx", images, target=target, samples=16, effort="fast"
        )
        paths[target] = folder / f"{target}.onnx"
        result.save(paths[target])
    return paths


def test_convert_writes_the_other_form_with_the_same_outputs(
    quantized: dict[str, Path], tmp_path: Path
) -> None:
    there, back = tmp_path / "qoperator.onnx", tmp_path / "qdq.onnx"
    for source, target, form in (
        (quantized["ort"], there, "qoperator"),
        (there, back, "qdq"),
    ):
        arguments = ["convert", str(source), "-o", str(target), "--format", form]
        assert CliRunner().invoke(app, arguments).exit_code == 0
    before, after = (onnx.load(path).graph for path in (quantized["ort"], there))
    integers = {
        output
        for node in before.node
        if node.op_type == "DequantizeLinear"
        for output in node.output
    }
    floats = [n.name for n in before.node if n.op_type == "Conv" and n.input[1] not in integers]
    assert "QLinearConv" in {node.op_type for node in after.node}
    assert [node.name for node in after.node if node.op_type == "Conv"] == floats
    x = np.random.default_rng(0).normal(size=(4, 1, 28, 28)).astype(np.float32)
    outputs = [
        Session(Graph.load(path)).run({"input": x})[0] for path in (quantized["ort"], there, back)
    ]
    np.testing.assert_array_equal(outputs[1], outputs[0])
    np.testing.assert_array_equal(outputs[2], outputs[0])


def test_convert_says_whether_onnxruntime_loads_the_given_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A custom operator loads in neither form; an Add of two types stands for a conversion that breaks a model."""
    custom, plain = (
        onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 17, "acme" : 1]>
            network (float[n, 4] x) => (float[n, 4] y) <float s = {{0.1}}, int8 z = {{0}}> {{
                xq = QuantizeLinear(x, s, z)
                xd = DequantizeLinear(xq, s, z)
                y = {op}(xd)
            }}"""
        )
        for op in ("acme.MyOp", "Relu")
    )
    broken = build_network("y = Add(x, k)", {"x": (1, 2)}, k=np.array(1))

    def convert(model: onnx.ModelProto) -> str:
        onnx.save(model, tmp_path / "m.onnx")
        paths = [str(tmp_path / "m.onnx"), "-o", str(tmp_path / "c.onnx")]
        return " ".join(
            CliRunner().invoke(app, ["convert", *paths, "--format", "qoperator"]).stdout.split()
        )

    shown = convert(custom)
    assert shown.startswith(
        "not verified: ONNX Runtime does not have the custom operator acme::MyOp"
    )
    assert ". ONNX Runtime does not load the given model either. " in shown
    monkeypatch.setattr("ptq.api.convert.convert_graph", lambda *_, **__: Graph.from_proto(broken))
    shown = convert(plain)
    assert shown.startswith("not verified: ONNX Runtime cannot load the model: ")
    assert ". Do not use the converted model in ONNX Runtime. " in shown


def test_a_model_for_litert_keeps_the_specification(quantized: dict[str, Path]) -> None:
    done = CliRunner().invoke(app, ["lint", str(quantized["litert"]), "--json", "-"])
    assert [f for f in json.loads(done.stdout) if f["severity"] == "error"] == []
    assert done.exit_code == 0


def test_uint8_activations_break_the_specification_and_the_exit_code_says_so(
    quantized: dict[str, Path],
) -> None:
    done = CliRunner().invoke(app, ["lint", str(quantized["ort"]), "--json", "-"])
    assert done.exit_code == 1
    assert "activation-type" in {f["rule"] for f in json.loads(done.stdout)}


def test_findings_of_one_rule_are_one_row_with_their_number(quantized: dict[str, Path]) -> None:
    findings = json.loads(
        CliRunner().invoke(app, ["lint", str(quantized["ort"]), "--json", "-"]).stdout
    )
    text = CliRunner().invoke(app, ["lint", str(quantized["ort"])]).stdout
    assert len(findings) > 40
    assert len(text.splitlines()) < 40
    for rule, count in Counter(finding["rule"] for finding in findings).items():
        assert text.count(rule) == 1
        assert f" {count} " in text
    assert "--json lists all" in text


def test_the_findings_are_printed_with_node_and_clause(quantized: dict[str, Path]) -> None:
    text = CliRunner().invoke(app, ["lint", str(quantized["ort"])]).stdout
    assert "activation-type" in text
    assert "/block2/expand/conv/Conv" in text
