"""Models in the runtimes that they are quantized for; each test is skipped where the runtime is not installed."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command_line import say
from exact_sums import EXACT_NATIVELY
from networks import build_network, gaussian_array, quantize_network, sqnr_db

import ptq
from ptq.core.errors import DataError, UnsupportedError, UsageError
from ptq.core.run_options import RunOptions
from ptq.core.targets import TARGETS
from ptq.data import Sample
from ptq.executor.runtimes.registry import RUNTIMES, Runtime, open_in_runtime
from ptq.executor.runtimes.runtime import Placement, describe_fallback, summarize_placement
from ptq.model.graph import Graph
from ptq.model.node import get_operator
from ptq.model.session.provider_session import parse_rejections
from ptq.model.session.session import Session
from ptq.verification import runtime_check
from ptq.verification.runtime_check import RuntimeTensor

SAME = "<pads = [1, 1, 1, 1]>"
MODEL = build_network(
    f"c = Conv{SAME}(x, u, b)\nr = Relu(c)\nd = Conv{SAME}(r, v, b)\ns = Add(d, r)\n"
    f"e = Conv{SAME}(s, v)\ny = Relu(e)",
    u=gaussian_array(8, 3, 3, 3, scale=0.2),
    v=gaussian_array(8, 8, 3, 3, seed=1, scale=0.1),
    b=gaussian_array(8, seed=2),
)
DATA = {"x": gaussian_array(8, 3, 8, 8, seed=5)}
TARGET_OF = {"openvino": "openvino", "qnn": "qnn", "litert": "litert", "ort-xnnpack": "ort-xnnpack"}


def installed(name: str) -> Any:
    """The runtime as a test parameter, skipped where it is not installed."""
    skip = pytest.mark.skipif(
        not RUNTIMES[name].is_installed(), reason=f"needs: {RUNTIMES[name].install}"
    )
    return pytest.param(name, marks=skip)


EVERY = [installed(name) for name in TARGET_OF]
TELLING = [installed(name) for name in ("openvino", "qnn")]


@pytest.mark.parametrize("name", EVERY)
def test_a_file_for_the_runtime_computes_there_what_it_computes_here(name: str) -> None:
    target = TARGETS[TARGET_OF[name]]
    # a runtime whose sums saturate on this processor gets weights that cannot saturate, as by default
    reduced = target.int16_pairs_saturate and not EXACT_NATIVELY
    done = quantize_network(MODEL, target=target, reduced=reduced)
    model = open_in_runtime(name, done.qdq, threads=1)
    for row in DATA["x"][:3]:
        feed = {"x": row[None]}
        (theirs,), (ours,) = model.run(feed), Session(done.qdq, threads=1).run(feed)
        assert sqnr_db(ours, theirs) > 30


@pytest.mark.parametrize("name", [installed("openvino")])
def test_rows_of_an_int8_table_are_the_same_there(name: str) -> None:
    table = gaussian_array(4000, 32) * np.geomspace(0.01, 10, 32).astype(np.float32)
    model = build_network(
        "e = Gather(t, ids)\nh = MatMul(e, w)\ny = Relu(h)",
        {"ids": [1, 5]},
        types={"ids": onnx.TensorProto.INT64},
        t=table,
        w=gaussian_array(32, 16, seed=1),
    )
    data = [{"ids": np.array([[k, 7 * k, 3999, 0, -1]], np.int64)} for k in range(1, 9)]
    done = quantize_network(model, data, target=name, reduced=not EXACT_NATIVELY)
    kinds = {i.data_type for i in done.qdq.to_proto().graph.initializer if 4000 in i.dims}
    assert kinds == {onnx.TensorProto.INT8}
    opened = open_in_runtime(name, done.qdq, threads=1)
    for feed in data:
        (theirs,), (ours,) = opened.run(feed), Session(done.qdq, threads=1).run(feed)
        assert sqnr_db(ours, theirs) > 30


@pytest.mark.parametrize("name", TELLING)
def test_every_node_is_placed_where_the_target_wants_it(name: str) -> None:
    row = replace(TARGETS[TARGET_OF[name]], leaves_layers_float=False)
    done = quantize_network(MODEL, target=row)
    model = open_in_runtime(name, done.qdq, threads=1)
    model.run({"x": DATA["x"][:1]})
    placed = model.placement()
    # ONNX Runtime gives some nodes other names before a provider takes them
    assert [node.op for node in placed].count("Conv") == 3
    assert all(node.intended for node in placed)


@pytest.mark.parametrize("name", TELLING)
def test_a_batch_that_varies_is_no_obstacle(name: str) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_param = "N"
    done = quantize_network(model, target=TARGET_OF[name])
    opened = open_in_runtime(name, done.qdq, threads=1)
    one, three = (opened.run({"x": DATA["x"][:n]})[0] for n in (1, 3))
    assert (one.shape[0], three.shape[0]) == (1, 3)
    assert np.allclose(one[0], three[0], atol=1e-5)


def _spoil(model: onnx.ModelProto, weight: str) -> onnx.ModelProto:
    """A copy whose integers of one weight have the other sign."""
    spoilt = onnx.ModelProto()
    spoilt.CopyFrom(model)
    (found,) = [i for i in spoilt.graph.initializer if i.name == weight]
    values = onnx.numpy_helper.to_array(found)
    found.CopyFrom(onnx.numpy_helper.from_array(np.negative(np.maximum(values, -127)), weight))
    return spoilt


@pytest.mark.parametrize("name", EVERY)
def test_verify_names_the_first_tensor_of_a_spoilt_file(name: str) -> None:
    done = quantize_network(MODEL, target=TARGET_OF[name])
    good = done.qdq.to_proto()
    reader = next(n for n in good.graph.node if n.name == "Conv_d")
    source = next(n for n in good.graph.node if reader.input[1] in n.output)
    spoilt = _spoil(good, source.input[0])
    result = ptq.verify(spoilt, DATA, runtime=name, against=good, threads=1)  # type: ignore[arg-type]
    assert result.runtime_check is not None
    first = result.runtime_check.first
    assert first is not None
    assert not result.passed
    # LiteRT returns outputs only; where no quantizer stands behind Conv_d, the sum is the first tensor
    assert first.node in {"litert": ("Conv_e",), "qnn": ("Conv_d",)}.get(name, ("Add_s", "Conv_d"))


@pytest.mark.parametrize("name", EVERY)
def test_verify_passes_on_the_file_itself(name: str) -> None:
    done = quantize_network(MODEL, target=TARGET_OF[name])
    result = ptq.verify(done.qdq.to_proto(), DATA, runtime=name, threads=1)  # type: ignore[arg-type]
    assert result.runtime_check is not None
    assert result.runtime_check.passed


@pytest.mark.parametrize("name", EVERY)
def test_evaluate_measures_in_the_runtime(name: str) -> None:
    done = quantize_network(MODEL, target=TARGET_OF[name])
    result = ptq.evaluate(
        done.qdq.to_proto(), DATA, against=MODEL, runtime=name, threads=1  # type: ignore[arg-type]
    )  # fmt: skip
    assert result.runtime == name
    sqnr = result.forms["int8"].outputs["y"].sqnr_db
    assert sqnr is not None
    assert sqnr > 20


@pytest.mark.parametrize("name", TELLING)
def test_a_library_prints_nothing_to_standard_output(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    done = quantize_network(MODEL, target=TARGET_OF[name])
    open_in_runtime(name, done.qdq, threads=1).run({"x": DATA["x"][:1]})
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", TELLING)
def test_benchmark_times_the_float_model_in_the_same_runtime(name: str) -> None:
    done = quantize_network(MODEL, target=TARGET_OF[name])
    models = [MODEL, done.qdq.to_proto()]
    result = ptq.benchmark(models, seconds=0, memory=False, threads=1, runtime=name)  # type: ignore[arg-type]
    assert result.runtime == name
    assert result.models[1].speed is not None


@pytest.mark.skipif(not RUNTIMES["qnn"].is_installed(), reason=f"needs: {RUNTIMES['qnn'].install}")
def test_a_narrow_clamp_is_right_on_the_htp() -> None:
    """A clamp between two different scales would be computed wrong there."""
    model = build_network(
        f"c = Conv{SAME}(x, u)\nr = Clip(c, lo, hi)\ny = Conv{SAME}(r, v)",
        u=gaussian_array(8, 3, 3, 3, scale=0.5),
        v=gaussian_array(8, 8, 3, 3, seed=1, scale=0.1),
        lo=np.float32(0),
        hi=np.float32(1),
    )
    done = quantize_network(model, target="qnn")
    result = ptq.verify(done.qdq.to_proto(), DATA, runtime="qnn", threads=1)
    assert result.runtime_check is not None
    assert result.runtime_check.passed


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_that_is_not_installed_is_one_line_with_the_command(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runtime, "is_installed", lambda self: False)
    with pytest.raises(UnsupportedError) as caught:
        ptq.evaluate(MODEL, DATA, runtime=name)  # type: ignore[arg-type]
    assert str(caught.value).endswith(f"is not installed; it needs: {RUNTIMES[name].install}")
    assert "\n" not in str(caught.value)


def test_an_unknown_runtime_is_refused_with_the_names() -> None:
    with pytest.raises(
        UsageError, match=r"runtime 'openvin' is unknown; .* \(did you mean openvino\?\)"
    ):
        ptq.evaluate(MODEL, DATA, runtime="openvin")  # type: ignore[arg-type]


def test_engine_and_runtime_mean_the_same() -> None:
    model = quantize_network(MODEL).qdq.to_proto()
    one = ptq.evaluate(model, DATA, against=MODEL, engine="integer", threads=1)
    other = ptq.evaluate(model, DATA, against=MODEL, runtime="integer", threads=1)
    assert one == other
    with pytest.raises(UsageError, match="engine integer and runtime ort differ"):
        ptq.evaluate(model, DATA, engine="integer", runtime="ort")


def test_against_alone_is_refused_by_verify() -> None:
    with pytest.raises(UsageError, match="give `runtime` too"):
        ptq.verify(MODEL, DATA, against=MODEL)


def test_no_sample_is_an_error() -> None:
    if not RUNTIMES["openvino"].is_installed():
        pytest.skip(f"needs: {RUNTIMES['openvino'].install}")
    with pytest.raises(DataError, match="no sample"):
        runtime_check.check_in_runtime(
            Graph.from_proto(MODEL), [], "openvino", against=None, run=RunOptions(threads=1)
        )


def _compare_with(
    monkeypatch: pytest.MonkeyPatch,
    weight: float,
    rest: list[float],
    found: list[float],
    *,
    zeros: bool = False,
) -> RuntimeTensor:
    """The output of two models as two runtimes; they differ in the factor, and in the values behind the products."""

    def build(factor: float, values: list[float]) -> Graph:
        array = np.array([values], np.float32)
        weights = {"w": np.full((4, 4), factor, np.float32), "rest": array}
        nodes = "p = MatMul(x, w)\ny = Concat<axis = 1>(p, rest)"
        return Graph.from_proto(build_network(nodes, {"x": (1, 4)}, **weights))

    class Other:
        def __init__(self) -> None:
            self.session = Session(build(weight, found), threads=1)

        def run(self, feed: Any, names: Any) -> Any:
            return self.session.run(feed, names)

        def placement(self) -> tuple[Placement, ...]:
            return ()

    monkeypatch.setattr(runtime_check, "open_in_runtime", lambda *_, **__: Other())
    samples = [Sample("s", {"x": np.full((1, 4), not zeros, np.float32)})]
    check = runtime_check.check_in_runtime(
        build(1, rest), samples, "openvino", against=None, run=RunOptions(threads=1)
    )
    [tensor] = check.tensors
    assert check.passed == (tensor.sqnr_db is None or tensor.sqnr_db >= check.limit_db)
    return tensor


NAN, INF, LARGEST = float("nan"), float("inf"), float(np.finfo(np.float32).max)


@pytest.mark.parametrize("rest", [[-INF], [NAN, INF], [-LARGEST]])
def test_equal_infinities_hide_no_error_of_other_values(
    monkeypatch: pytest.MonkeyPatch, rest: list[float]
) -> None:
    assert _compare_with(monkeypatch, 1, rest, rest).sqnr_db is None
    # 4 values of 4 are 6: an error of half of each
    other = _compare_with(monkeypatch, 1.5, rest, rest)
    assert other.sqnr_db == pytest.approx(20 * np.log10(2))


@pytest.mark.parametrize(
    ("rest", "found"),
    [
        *[
            ([1.0], [NAN]),
            ([NAN], [1.0]),
            ([INF], [-INF]),
            ([-INF], [0.0]),
            ([0.0], [INF]),
            ([0.0], []),
        ],
        *[([0.99 * LARGEST], [INF]), ([INF], [0.99 * LARGEST])],  # a sum overflows in one of them
    ],
)
def test_other_values_that_are_not_finite_diverge(
    monkeypatch: pytest.MonkeyPatch, rest: list[float], found: list[float]
) -> None:
    tensor = _compare_with(monkeypatch, 1, rest, found)
    assert (tensor.sqnr_db, tensor.mismatch) == (-60, True)
    check = runtime_check.RuntimeCheck("openvino", 1, 20.0, (tensor,))
    assert runtime_check.describe_failure(check).endswith(": another shape, NaN or infinity")


def test_a_tensor_of_zeros_that_diverges_has_a_finite_ratio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tensor = _compare_with(monkeypatch, 1, [0.0], [1.0], zeros=True)
    assert (tensor.sqnr_db, tensor.mismatch) == (-60, False)
    check = runtime_check.RuntimeCheck("openvino", 1, 20.0, (tensor,))
    assert runtime_check.describe_failure(check).endswith(": -60.0 dB, below 20")


def test_an_infinity_may_be_the_largest_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _compare_with(monkeypatch, 1, [-INF, INF], [-LARGEST, LARGEST]).sqnr_db is None


def test_placement_is_summed_up_in_one_line() -> None:
    nodes = [Placement("a", "Conv", "HTP", True), Placement("b", "Conv", "HTP", True)]
    assert summarize_placement(nodes) == "2 of 2 nodes on HTP"
    nodes.append(Placement("s", "Softmax", "CPU", False))
    assert summarize_placement(nodes) == "2 of 3 nodes on HTP; 1 Softmax on CPU"
    assert summarize_placement(nodes[2:]) == "no node where it should be; 1 Softmax on CPU"
    assert summarize_placement([]) == ""


def test_nodes_that_fall_back_to_the_cpu_are_named_with_their_cost() -> None:
    away = [Placement(f"s{k}", "Softmax", "CPU", False) for k in range(4)]
    placed = [Placement("a", "Conv", "HTP", True), *away, Placement("t", "Tanh", "CPU", False)]
    text = describe_fallback(placed)
    assert text.startswith(
        "5 nodes fall back to the CPU (4 Softmax, 1 Tanh: s0, s1, s2, …): tensors are copied"
    )
    assert "which costs speed" in text
    assert describe_fallback(placed[:2]).startswith("1 node falls back to the CPU (1 Softmax: s0)")


def test_nothing_falls_back_where_the_cpu_is_intended_or_floats_are_no_device() -> None:
    assert describe_fallback([Placement("a", "Conv", "CPU", True)]) == ""
    assert describe_fallback([Placement("a", "Conv", "floats", False)]) == ""  # of OpenVINO
    assert describe_fallback([]) == ""


class _Provider:
    """ONNX Runtime in place of a provider that leaves each Relu to the CPU."""

    fixed_batch = False

    def __init__(self, graph: Graph) -> None:
        self._session = Session(graph, threads=1)
        self._nodes = [(node.name or "", get_operator(node)) for node in graph.nodes]

    def run(self, feed: Any, outputs: Any = None) -> Any:
        return self._session.run(feed, outputs)

    def placement(self) -> tuple[Placement, ...]:
        return tuple(
            Placement(name, op, "CPU" if op == "Relu" else "HTP", op != "Relu")
            for name, op in self._nodes
        )


RELU = """<ir_version: 8, opset_import: ["" : 17]> small (float[1, 8] x) => (float[1, 8] y) {
    z = Sigmoid(x)
    y = Relu(z)
}"""


@pytest.mark.parametrize(
    ("verb", "opened_in"), [("benchmark", "benchmark"), ("evaluate", "measured_model")]
)
def test_a_verb_that_runs_elsewhere_says_what_falls_back(
    verb: str, opened_in: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = importlib.import_module(f"ptq.api.{opened_in}")
    monkeypatch.setattr(module, "open_in_runtime", lambda _, graph, **__: _Provider(graph))
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(RELU), "m.onnx")
    np.savez("x.npz", x=np.ones((8, 1, 8), np.float32))
    options = ("--seconds", 0.1) if verb == "benchmark" else ()
    text = say(verb, "m.onnx", "--data", "x.npz", "--runtime", "qnn", *options)
    assert "1 node falls back to the CPU (1 Relu" in " ".join(text.split())
    if verb == "benchmark":
        found = ptq.benchmark("m.onnx", "x.npz", runtime="qnn", seconds=0.1)
        assert found.models[0].slow[0].startswith("1 node falls back to the CPU")


def _model_with(op: str, attributes: str = "") -> onnx.ModelProto:
    return build_network(
        f"c = Conv{SAME}(x, u)\nd = {op}{attributes}(c)\ny = Conv{SAME}(d, v)",
        u=gaussian_array(8, 3, 3, 3, scale=0.2),
        v=gaussian_array(8, 8, 3, 3, seed=1, scale=0.1),
    )


@pytest.mark.skipif(not RUNTIMES["qnn"].is_installed(), reason=f"needs: {RUNTIMES['qnn'].install}")
def test_qualcomms_provider_says_why_a_node_runs_on_the_cpu(
    capfd: pytest.CaptureFixture[str],
) -> None:
    done = quantize_network(_model_with("Celu"), target="qnn")
    model = open_in_runtime("qnn", done.qdq, threads=1)
    model.run({"x": DATA["x"][:1]})
    placed = model.placement()
    # the provider adds two Transposes of its own
    [fallen] = [node for node in placed if not node.intended]
    assert (fallen.op, fallen.device) == ("Celu", "CPU")
    assert fallen.reason == "Operators of type `Celu` are not supported by QNN EP"
    assert summarize_placement(placed) == f"4 of 5 nodes on HTP; 1 Celu on CPU: {fallen.reason}"
    assert capfd.readouterr().out == ""


@pytest.mark.skipif(
    not RUNTIMES["openvino"].is_installed(), reason=f"needs: {RUNTIMES['openvino'].install}"
)
def test_openvino_says_which_products_have_no_quantizers() -> None:
    row = replace(TARGETS["openvino"], leaves_layers_float=False)
    done = quantize_network(MODEL, target=row, skip=["Conv_d"])
    placed = open_in_runtime("openvino", done.qdq, threads=1).placement()
    assert {node.node: node.reason for node in placed if not node.intended} == {
        "Conv_d": "the file has no quantizers before it"
    }


def test_the_log_of_a_provider_is_read_node_by_node() -> None:
    log = (
        "12:00 [V:onnxruntime:, e.cc:1 LogNodeSupport] Validation FAILED for 3 nodes in OrtNodeUnit (Erf) :\n"
        "\tOperator type: DequantizeLinear Node name: dq Node index: 20\n"
        "\tOperator type: Erf Node name: a b (1) Node index: 21\n"
        "\tREASON : QNN graph validation failed. Error code 3110\n"
        "12:01 [V:onnxruntime:, e.cc:1 LogNodeSupport] Validation PASSED for 1 nodes in OrtNodeUnit (Conv) :\n"
        "\tOperator type: Conv Node name: c Node index: 2\n"
        "12:02 Validation FAILED for 1 nodes in OrtNodeUnit (Softmax) :\n"
        "\tOperator type: Softmax Node name: s Node index: 5\n"
    )
    assert parse_rejections(log) == {"a b (1)": "QNN graph validation failed"}
    assert parse_rejections("") == {}
