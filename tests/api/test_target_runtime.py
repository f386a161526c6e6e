"""What a quantization says of the runtime that its result is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import DataError, ModelError
from ptq.core.targets import OUTSIDE_XNNPACK
from ptq.evaluation.presentation.verdict import describe_verdict
from ptq.evaluation.speed import Speed
from ptq.executor.runtimes.registry import RUNTIMES, Runtime
from ptq.executor.runtimes.runtime import Placement
from ptq.model.graph import Graph
from ptq.model.session.session import Session

MODEL = build_network(
    "c = Conv<pads = [1, 1, 1, 1]>(x, u)\nr = Relu(c)\ny = Conv<pads = [1, 1, 1, 1]>(r, v)",
    u=gaussian_array(8, 3, 3, 3),
    v=gaussian_array(8, 8, 3, 3),
)
DATA = {"x": gaussian_array(16, 3, 8, 8, seed=5)}
OPTIONS = {"eval_data": DATA, "effort": "fast", "threads": 1, "force": True}


def lines(target: str) -> list[str]:
    """The lines of the report of a quantization for a target."""
    return list(ptq.quantize(MODEL, DATA, target=target, **OPTIONS).report.changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["openvino", "qnn", "ort-xnnpack"])
def test_a_runtime_that_is_not_installed_is_named(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runtime, "is_installed", lambda self: False)
    runtime = RUNTIMES[target]
    said = f"not run in {runtime.title}: it is not installed ({runtime.install})"
    assert said in lines(target)


def test_the_report_measures_the_file_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runtime, "is_installed", lambda self: False)
    pointwise = build_network(
        "c = Conv(x, u)\nr = LeakyRelu(c)\nd = Conv(r, v)\ny = LeakyRelu(d)",
        u=gaussian_array(24, 3, 1, 1),
        v=gaussian_array(24, 24, 1, 1, seed=1),
    )
    feeds = {"x": gaussian_array(64, 3, 8, 8, seed=5)}
    made = ptq.quantize(pointwise, feeds, target="openvino", eval_data=feeds, threads=1, force=True)
    made.save(tmp_path / "made.onnx")
    reported = made.report.evaluation
    assert reported is not None
    engines: list[tuple[Literal["ort", "integer"], str]] = [
        ("ort", "int8"),
        ("integer", "integers"),
    ]
    for engine, form in engines:
        found = ptq.evaluate(
            tmp_path / "made.onnx", feeds, against=pointwise, engine=engine, threads=1
        )
        assert found.forms[form].outputs == reported.forms[form].outputs


@pytest.mark.parametrize("target", ["openvino", "qnn"])
def test_a_runtime_that_is_installed_measures_the_result(target: str) -> None:
    runtime = RUNTIMES[target]
    if not runtime.is_installed():
        pytest.skip(f"needs: {runtime.install}")
    report = ptq.quantize(MODEL, DATA, target=target, **OPTIONS).report  # type: ignore[arg-type]
    found = [line for line in report.changes if line.startswith(f"in {runtime.title}: ")]
    assert any(" nodes on " in line for line in found)
    assert report.evaluation is not None
    assert report.evaluation.runtime == ("ort" if runtime.is_emulator else target)
    assert ("SQNR" in found[0]) == runtime.is_emulator
    assert ("speed" in found[-1]) == (target == "openvino")


def test_for_tensorrt_the_rules_are_checked_and_no_run_is_claimed() -> None:
    found = lines("tensorrt")
    assert "rules of TensorRT: no finding" in found
    assert "not run in TensorRT: it needs a GPU" in found


def test_for_onnx_runtime_nothing_is_added() -> None:
    assert not any("not run" in line or "rules of" in line for line in lines("ort"))


class _Model:
    """A model in a runtime that need not be installed."""

    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ("y",)
    fixed_batch = False

    def __init__(self, graph: Graph, *, threads: int = 0) -> None:
        self._session = Session(graph, threads=threads)

    def run(self, feed: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        return self._session.run(feed, outputs)

    def placement(self) -> tuple[Placement, ...]:
        return ()


class _WrongModel(_Model):
    """It computes something else than ONNX Runtime."""

    def run(self, feed: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        return [-found for found in super().run(feed, outputs)]


class _FailingModel(_Model):
    """It loads, and fails on a sample."""

    def run(self, feed: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        raise DataError("index out of bounds")


class _RefusedModel(_Model):
    """It does not load."""

    def __init__(self, graph: Graph, *, threads: int = 0) -> None:
        raise ModelError("no kernel for Relu")


def test_the_runtime_that_the_target_is_for_measures_accuracy_and_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _install(monkeypatch, "openvino", _WrongModel)
    options = {**OPTIONS, "target": "openvino", "max_drop": 5.0}
    report = ptq.quantize(MODEL, DATA, **options).report  # type: ignore[arg-type]
    assert report.evaluation is not None
    assert report.budget is not None
    assert report.evaluation.runtime == "openvino"
    assert report.evaluation.forms["int8"].outputs["y"].sqnr_db < 0
    assert report.evaluation.forms["integers"].outputs["y"].sqnr_db > 20
    assert report.budget.verdict == "exceeded"
    assert "int8 in OpenVINO" in report.to_markdown()


@pytest.mark.parametrize(
    ("model", "said", "what"),
    [
        (_RefusedModel, "cannot load it: no kernel for Relu", "the model"),
        (
            _FailingModel,
            "fails on a sample, so accuracy is that of ONNX Runtime: eval_data[0]: index",
            "a sample",
        ),
    ],
)
def test_a_runtime_that_does_not_run_its_model_is_the_first_warning(
    monkeypatch: pytest.MonkeyPatch, model: type[_Model], said: str, what: str
) -> None:
    _install(monkeypatch, "openvino", model)
    options = {**OPTIONS, "target": "openvino", "max_drop": 50.0}
    report = ptq.quantize(MODEL, DATA, **options).report  # type: ignore[arg-type]
    assert report.evaluation is not None
    assert report.budget is not None
    assert report.evaluation.runtime == "ort"
    assert report.budget.verdict == "undecided"
    assert report.budget.sentence.endswith(f"undecided (OpenVINO cannot run {what})")
    assert report.warnings[0].startswith(f"the quantized model: OpenVINO {said}")
    assert "read the warnings first" in describe_verdict(report)[0]


def _install(
    monkeypatch: pytest.MonkeyPatch, name: str, model: Callable[..., _Model] = _Model
) -> None:
    runtime = replace(RUNTIMES[name], package="sys", open=model)
    found = {**RUNTIMES, name: runtime}
    monkeypatch.setattr("ptq.api.target_runtime.RUNTIMES", found)
    _set_speed(monkeypatch)


def _set_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target's runtime takes 2.5 times as long as for float."""
    speed = Speed(0.4, (0.39, 0.41), 11)
    monkeypatch.setattr("ptq.api.target_runtime.measure_speed", lambda *_: speed)


def test_the_speed_is_that_of_the_runtime_that_the_target_is_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _install(monkeypatch, "openvino")
    report = ptq.quantize(MODEL, DATA, target="openvino", **OPTIONS).report  # type: ignore[arg-type]
    assert report.speed_runtime == "OpenVINO"
    assert report.speed == 0.4
    verdict = describe_verdict(report)
    assert any(line.endswith("× float (OpenVINO, batch 1)") for line in verdict)
    assert any("times slower" in warning for warning in report.warnings)


def test_a_speed_of_another_runtime_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runtime, "is_installed", lambda self: False)
    report = ptq.quantize(MODEL, DATA, target="openvino", **OPTIONS).report  # type: ignore[arg-type]
    verdict = describe_verdict(report)
    assert any("× float (in ONNX Runtime; other runtimes differ)" in line for line in verdict)
    assert not any("times slower" in warning for warning in report.warnings)


def test_a_tflite_file_is_timed_in_litert() -> None:
    pytest.importorskip("ai_edge_litert")
    report = ptq.quantize(MODEL, DATA, target="litert", form="tflite", **OPTIONS).report  # type: ignore[arg-type]
    assert report.speed_runtime == "LiteRT"
    assert any(line.startswith("in LiteRT: speed") for line in report.changes)


def test_operators_that_are_slow_in_litert_are_named_and_may_stay_float(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ai_edge_litert")
    _set_speed(monkeypatch)
    model = build_network(
        "c = Conv<pads = [1, 1, 1, 1]>(x, u)\nr = HardSwish(c)\ny = Conv<pads = [1, 1, 1, 1]>(r, v)",
        u=gaussian_array(8, 3, 3, 3),
        v=gaussian_array(8, 8, 3, 3),
    )
    options = {**OPTIONS, "target": "litert", "form": "tflite"}
    slow = ptq.quantize(model, DATA, **options).report  # type: ignore[arg-type]
    assert slow.slow_causes == ("outside of XNNPACK",)
    assert "1 node outside of XNNPACK (1 HardSwish)" in slow.slow[0]
    assert "use target litert-xnnpack, which keeps these in float" in slow.slow[0]
    assert any("2.50 times slower" in w and "outside of XNNPACK" in w for w in slow.warnings)
    options["target"] = "litert-xnnpack"
    fast = ptq.quantize(model, DATA, **options).report  # type: ignore[arg-type]
    assert fast.slow_causes == ()
    assert [row.op for row in fast.nodes if row.fate == "float"] == ["HardSwish"]


WITHIN_LITERT = {
    "Abs": "e = Abs(c)",
    "Add": "e = Add(c, c)",
    "AveragePool": "e = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(c)",
    "Ceil": "e = Ceil(c)",
    "Celu": "e = Celu(c)",
    "Concat": "e = Concat<axis = 1>(c, c)",
    "Cos": "e = Cos(c)",
    "Elu": "e = Elu(c)",
    "Erf": "e = Erf(c)",
    "Exp": "a = Tanh(c)\ne = Exp(a)",
    "Floor": "e = Floor(c)",
    "Gelu": "e = Gelu(c)",
    "HardSigmoid": "e = HardSigmoid(c)",
    "HardSwish": "e = HardSwish(c)",
    "LeakyRelu": "e = LeakyRelu(c)",
    "Log": "a = Sigmoid(c)\nb = Sigmoid(a)\ne = Log(b)",
    "Max": "e = Max(c, k)",
    "MaxPool": "e = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)",
    "Min": "e = Min(c, k)",
    "Mish": "e = Mish(c)",
    "Mul": "e = Mul(c, c)",
    "Neg": "e = Neg(c)",
    "PRelu": "e = PRelu(c, k)",
    "Pow": "e = Pow(c, two)",
    "Reciprocal": "a = Sigmoid(c)\nb = Sigmoid(a)\ne = Reciprocal(b)",
    "Relu": "e = Relu(c)",
    "Round": "e = Round(c)",
    "Selu": "e = Selu(c)",
    "Sigmoid": "e = Sigmoid(c)",
    "Sign": "a = MaxPool<kernel_shape = [3, 3]>(c)\ne = Sign(a)",
    "Sin": "e = Sin(c)",
    "Softmax": "e = Softmax<axis = 1>(c)",
    "Softplus": "e = Softplus(c)",
    "Softsign": "e = Softsign(c)",
    "Sqrt": "a = Relu(c)\ne = Sqrt(a)",
    "Sub": "a = Tanh(c)\ne = Sub(c, a)",
    "Tanh": "e = Tanh(c)",
    "ThresholdedRelu": "e = ThresholdedRelu<alpha = 0.1>(c)",
}
"""An operator behind a convolution, in ONNX's text form."""
TABLES_ALONE = {"Erf", "ThresholdedRelu"}
"""Tables of which LiteRT has no float form: float nodes could not be in a file."""


def test_every_operator_outside_of_xnnpack_is_tried() -> None:
    assert WITHIN_LITERT.keys() > OUTSIDE_XNNPACK


@pytest.mark.parametrize("op", WITHIN_LITERT)
def test_operators_outside_of_xnnpack_are_those_that_litert_does_not_delegate(op: str) -> None:
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    channels = 16 if op == "Concat" else 8
    text = f"c = Conv<pads = [1, 1, 1, 1]>(x, u)\n{WITHIN_LITERT[op]}\ny = Conv(e, v)"
    weights = {"u": gaussian_array(8, 3, 3, 3), "v": gaussian_array(8, channels, 1, 1)}
    if "k)" in text:
        weights["k"] = gaussian_array(8, 1, 1)
    if "two)" in text:
        weights["two"] = np.float32(2)
    model = build_network(text, opset=22, **weights)
    options = {**OPTIONS, "target": "litert", "form": "tflite"}
    made = ptq.quantize(model, DATA, **options)  # type: ignore[arg-type]
    assert op in {row.op for row in made.report.nodes if row.fate != "float"}
    run = interpreter.Interpreter(model_content=made.tflite, num_threads=1)
    run.allocate_tensors()
    names = [each["op_name"] for each in run._get_ops_details()]
    assert (op in OUTSIDE_XNNPACK or op in TABLES_ALONE) == (names.count("DELEGATE") > 1)
    options["target"] = "litert-xnnpack"
    kept = ptq.quantize(model, DATA, **options).report.nodes  # type: ignore[arg-type]
    assert (op in OUTSIDE_XNNPACK) == (op in {row.op for row in kept if row.fate == "float"})


def test_what_a_model_leaves_open_is_taken_from_the_samples_in_litert_too() -> None:
    pytest.importorskip("ai_edge_litert")
    model = build_network(
        "c = Conv<pads = [1, 1, 1, 1]>(x, u)\ne = Erf(c)\ny = Conv<pads = [1, 1, 1, 1]>(e, v)",
        {"x": ("n", 3, "h", "w")},
        u=gaussian_array(8, 3, 3, 3),
        v=gaussian_array(8, 8, 3, 3),
    )
    report = ptq.quantize(model, DATA, target="litert", form="tflite", **OPTIONS).report  # type: ignore[arg-type]
    assert report.evaluation is not None
    assert report.evaluation.runtime == "litert"


def test_a_tflite_file_of_one_batch_is_evaluated_sample_by_sample() -> None:
    pytest.importorskip("ai_edge_litert")
    model = build_network(
        "c = Conv<pads = [1, 1, 1, 1]>(x, u)\nr = Relu(c)\nz = ConvTranspose<strides = [2, 2]>(r, v)\n"
        "s = ReduceMean<keepdims = 0>(z)\nt = Transpose<perm = [1, 0, 2, 3]>(z)",
        {"x": ("n", 3, 8, 8)},
        ["t", "s"],
        u=gaussian_array(8, 3, 3, 3),
        v=gaussian_array(8, 4, 2, 2),
    )
    data = {
        "x": gaussian_array(12, 3, 8, 8, seed=6)
    }  # the last batch has as many samples as t has channels
    options = {**OPTIONS, "eval_data": data, "target": "litert", "form": "tflite"}
    report = ptq.quantize(model, data, **options).report  # type: ignore[arg-type]
    assert report.evaluation is not None
    assert report.evaluation.runtime == "litert"
    int8 = report.evaluation.forms["int8"].outputs
    assert min(int8["t"].sqnr_db, int8["s"].sqnr_db) > 25
