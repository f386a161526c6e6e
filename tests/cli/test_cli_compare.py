"""ptq compare: its figures and gate; the oracles are `ptq.evaluate` and models that are made worse on purpose."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network
from onnx import numpy_helper

import ptq as ptq_package


@pytest.fixture
def ruined(model) -> Path:
    """The same network with the rows of its classes in reverse: nearly no class stays."""
    proto = onnx.load(model)
    for tensor in proto.graph.initializer:
        if tensor.name in ("w2", "b2"):
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array[::-1]), tensor.name))
    onnx.save(proto, "ruined.onnx")
    return Path("ruined.onnx")


@pytest.fixture
def right(model, data) -> Path:
    """Samples that the model gets right, all of them."""
    with np.load(data) as arrays:
        x = np.tile(arrays["x"], (10, 1, 1, 1))
    import onnxruntime

    (scores,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    np.savez("right.npz", x=x, labels=np.asarray(scores).argmax(1))
    return Path("right.npz")


@pytest.mark.usefixtures("folder")
def test_a_sample_with_another_shape_is_the_reason_for_no_sqnr(ptq):
    nodes = "g = Greater(x, t)\nn = NonZero(g)\ny = Cast<to = 1>(n)"
    for name, above in (("old.onnx", 0.0), ("new.onnx", 0.5)):
        onnx.save(build_network(nodes, {"x": ("N", 8)}, t=np.float32(above)), name)
    x = np.ones((6, 8), np.float32)
    x[2, 3] = 0.25
    np.savez("x.npz", x=x)
    compared = ptq("compare", "old.onnx", "new.onnx", "--data", "x.npz")
    assert "SQNR −∞ dB, cosine 0.833333, another shape on 1 sample\n" in compared.out
    evaluated = ptq("evaluate", "new.onnx", "--against", "old.onnx", "--data", "x.npz")
    assert "output y has another shape on 1 sample\n" in evaluated.out
    assert "float model, another shape on 1 sample" in evaluated.out.replace("\n  ", " ")
    assert "inf dB" not in evaluated.out + evaluated.err


def test_the_figures_are_those_of_evaluate_against(ptq, model, ruined, data):
    result = ptq("compare", model, ruined, "--data", data, "--json", "-")
    document = json.loads(result.out)
    form = ptq_package.evaluate(ruined, data, against=model).forms["other"]
    assert result.code == 0
    assert form.drop is not None
    assert form.accuracy is not None
    assert document["drop"]["points"] == form.drop.points
    assert document["new_accuracy"]["top1"] == form.accuracy.top1
    assert document["outputs"]["y"]["sqnr_db"] == form.outputs["y"].sqnr_db
    assert document["old_bytes"] == model.stat().st_size
    assert document["speed"] > 0


def test_a_model_that_is_worse_than_the_budget_ends_with_3(ptq, model, ruined, right):
    arguments = ["--data", right, "--max-drop", "1"]
    assert ptq("compare", model, model, *arguments).code == 0
    worse = ptq("compare", model, ruined, *arguments)
    assert worse.code == 3
    assert "budget of 1 point of top-1 accuracy: exceeded" in worse.out
    better = ptq("compare", ruined, model, *arguments)
    assert better.code == 0


def test_too_few_samples_pass_only_without_strict(ptq, model, data):
    arguments = ["compare", model, model, "--data", data, "--max-drop", "0.5"]
    assert ptq(*arguments).code == 0
    strict = ptq(*arguments, "--strict")
    assert (strict.code, "undecided (top-1 0.00 points on 24 " in strict.line) == (3, True)


def test_without_labels_the_drop_is_agreement_with_the_old_model(ptq, model, data):
    with np.load(data) as arrays:
        np.savez("unlabelled.npz", x=arrays["x"])
    result = ptq("compare", model, model, "--data", "unlabelled.npz", "--json", "-")
    drop = json.loads(result.out)["drop"]
    assert (drop["metric"], drop["points"]) == ("agreement with the old model", 0)


def test_a_model_with_another_input_is_refused(ptq, model, data):
    proto = onnx.load(model)
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "z"
    onnx.save(proto, "other.onnx")
    result = ptq("compare", model, "other.onnx", "--data", data)
    assert (result.code, "different inputs or outputs: x[" in result.line) == (1, True)


def test_a_model_with_another_output_is_refused(ptq, model, data):
    proto = onnx.load(model)
    proto.graph.node[-1].output[0] = "y0"
    proto.graph.node.append(onnx.helper.make_node("Unsqueeze", ["y0", "axis"], ["y"], name="more"))
    proto.graph.initializer.append(numpy_helper.from_array(np.array([2]), "axis"))
    proto.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 1
    onnx.save(proto, "other.onnx")
    result = ptq("compare", model, "other.onnx", "--data", data)
    assert (result.code, "different inputs or outputs: x[" in result.line) == (1, True)


def test_an_input_of_another_type_is_refused(ptq, model, data):
    proto = onnx.load(model)
    proto.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    proto.graph.node[0].input[0] = "narrow"
    cast = onnx.helper.make_node("Cast", ["x"], ["narrow"], name="cast", to=onnx.TensorProto.FLOAT)
    proto.graph.node.insert(0, cast)
    onnx.save(proto, "double.onnx")
    result = ptq("compare", model, "double.onnx", "--data", data)
    assert (result.code, "input x is float32 in the old model" in result.line) == (1, True)


def test_python_has_the_same_verb(model, data):
    result = ptq_package.compare(model, model, data, max_drop=20.0, threads=1)
    assert result.budget is not None
    assert result.budget.verdict == "held"
    assert result.drop.points == 0


def test_samples_of_a_comparison_can_be_cached(ptq, model, data, tmp_path):
    plain = ptq("compare", model, model, "--data", data, "--json", "-")
    cached = ptq("compare", model, model, "--data", data, "--cache", tmp_path, "--json", "-")
    assert json.loads(cached.out)["drop"] == json.loads(plain.out)["drop"]
    assert json.loads(cached.out)["options"]["cache"] == str(tmp_path)
    assert ptq("compare", model, model, "--data", data, "--cache", "3").line == (
        "error: --cache of 3 bytes is too small; give a size such as 20GB"
    )
