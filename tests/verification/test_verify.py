"""Integers beside integers; models tampered with on purpose are the oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from cases import CASES, case_in_onnx_runtime, case_with_integers, quantized_case
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph
from networks import build_network, gaussian_array, quantize_network, random_feeds, to_samples
from onnx import TensorProto, helper, numpy_helper
from parts import CONV, SAME, WB, V

from ptq.core.errors import DataError, ModelError
from ptq.core.run_options import RunOptions
from ptq.data import Sample
from ptq.executor.executor import Executor
from ptq.executor.float_islands import FloatIsland
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import INSTALLED
from ptq.verification.tensor_comparison import Compared
from ptq.verification.verify import verify_graph

CHAIN = build_network(CONV + f"r = Relu(c)\nd = Conv{SAME}(r, v)\ny = Conv{SAME}(d, v)", v=V, **WB)


def test_an_output_that_is_a_sequence_is_compared_item_by_item() -> None:
    model = build_network(CONV + "y = Relu(c)\ns = SequenceConstruct(y, c)", **WB)
    made = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    model.graph.output.append(made)
    done = quantize_network(model)
    found = verify_graph(done.qdq, to_samples(done.feeds[:2]), run=RunOptions(threads=1))
    assert found.intact
    assert found.passed


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_model_that_is_right_is_equal(name: str, form: str) -> None:
    case_with_integers(name)
    done = case_in_onnx_runtime(name)
    graph = done.qdq if form == "qdq" else done.qlinear
    result = verify_graph(graph, to_samples(done.feeds[:2]), run=RunOptions(threads=1))
    assert result.equal, result.first
    assert result.intact
    assert result.samples == 2
    steps = [s for s in Executor(graph).program.steps if not isinstance(s, FloatIsland)]
    products = {n for s in steps if s.op in ("Conv", "Gemm", "MatMul", "Add") for n in s.outputs}
    assert {t.tensor for t in result.tensors} >= products
    assert all(t.elements > 0 for t in result.tensors)


@pytest.mark.parametrize(("target", "compared"), [("ort", 4), ("qnn-a16", 1)])
def test_integers_that_float_operators_compute_are_counted(target: str, compared: int) -> None:
    done = quantize_network(CHAIN, target=target)
    result = verify_graph(done.qdq, to_samples(done.feeds[:1]), run=RunOptions(threads=1))
    assert (len(result.tensors), len(result.tensors) + result.not_compared) == (compared, 4)


def changed(graph: Graph, name: str, change: Callable[[np.ndarray], np.ndarray]) -> Graph:
    """The graph with another value of one initializer."""
    proto = graph.to_proto()
    (tensor,) = [t for t in proto.graph.initializer if t.name == name]
    array = change(numpy_helper.to_array(tensor).copy())
    tensor.CopyFrom(
        numpy_helper.from_array(array.astype(numpy_helper.to_array(tensor).dtype), name)
    )
    return Graph.from_proto(proto)


def patched(monkeypatch: pytest.MonkeyPatch, other: Graph) -> None:
    """Let the executor run another graph than ONNX Runtime."""
    monkeypatch.setattr(
        "ptq.verification.tensor_comparison.Executor", lambda graph, *more: Executor(other, *more)
    )


def test_the_first_node_that_diverges_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    done = quantize_network(CHAIN)
    patched(monkeypatch, changed(done.qdq, "d_scale", lambda s: s * 1.25))
    result = verify_graph(done.qdq, to_samples(done.feeds[:2]), run=RunOptions(threads=1))
    assert not result.equal
    assert result.first is not None
    assert (result.first.node, result.first.op) == ("Conv_d", "Conv")
    assert result.first.differing > 0
    assert result.first.largest >= 1
    before = [t for t in result.tensors if t.tensor in ("x_quantized", "r_quantized")]
    assert [(t.differing, t.differing_locally) for t in before] == [(0, 0), (0, 0)]


def test_a_node_downstream_is_right_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    done = quantize_network(CHAIN)
    weight = changed(done.qdq, "w_quantized", lambda w: np.where(w > 100, w - 40, w))
    patched(monkeypatch, weight)
    result = verify_graph(done.qdq, to_samples(done.feeds[:2]), run=RunOptions(threads=1))
    assert result.first is not None
    assert result.first.node == "Conv_c"
    later = [t for t in result.tensors if t.node in ("Conv_d", "Conv_y")]
    assert len(later) == 2
    assert all(t.differing > 0 and t.differing_locally == 0 for t in later)


def test_where_nothing_is_reduced_the_shapes_differ_and_no_more_is_said() -> None:
    """Of an axis without elements ONNX Runtime before 1.32 leaves the axis standing."""
    graph = foreign_graph(
        INPUT_QDQ + "r = ReduceMin<keepdims = 0>(xd, axes)" + OUTPUT_QDQ,
        (3, 2, 0),
        opset=18,
        axes=np.array([-1]),
        x_scale=np.float32(0.05),
        x_zero=np.uint8(9),
        y_scale=np.float32(0.05),
        y_zero=np.uint8(9),
    )
    empty = Sample("s", {"x": np.zeros((3, 2, 0), np.float32)}, ())
    found = verify_graph(graph, [empty], run=RunOptions(threads=1))
    if INSTALLED >= (1, 32):
        assert found.equal
        return
    assert found.first is not None
    assert (found.first.op, found.first.elements, found.first.differing) == ("ReduceMin", 6, 6)


def test_islands_agree_by_construction_and_are_listed() -> None:
    model = build_network(
        CONV + f"h = HardSigmoid(c)\nm = ReduceMean<axes=[1]>(h)\ne = Erf(c)\na = Mul(e, m)\n"
        f"y = Conv{SAME}(a, v)",
        v=V,
        **WB,
    )
    done = quantize_network(model)
    result = verify_graph(done.qdq, to_samples(done.feeds), run=RunOptions(threads=1))
    assert result.equal
    assert sorted(op for ops in result.islands.values() for op in ops) == [
        "Erf",
        "HardSigmoid",
        "ReduceMean",
    ]


def test_reading_the_integers_leaves_the_outputs_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = quantized_case("residual")
    other = changed(done.qdq, "y_scale", lambda s: s * 2)
    monkeypatch.setattr(Graph, "copy", lambda self: Graph.from_proto(other.to_proto()))
    found = verify_graph(done.qdq, to_samples(done.feeds[:1]), run=RunOptions(threads=1))
    assert not found.intact
    assert not found.passed
    assert 0 < found.changed_outputs <= found.outputs
    assert found.changed_share > 0


def test_a_float_operator_that_reading_changes_does_not_fail_the_integers() -> None:
    """ONNX Runtime lays a cubic Resize out otherwise when tensors beside it are read."""
    if INSTALLED < (1, 24):
        pytest.skip("an older ONNX Runtime refuses a cubic Resize between integers")
    rng = np.random.default_rng(11)
    weights = {
        name: rng.normal(0, 0.3, shape)
        for name, shape in {"w": (16, 3, 3, 3), "v": (16, 16, 3, 3)}.items()
    }
    resize = 'Resize <mode = "cubic", coordinate_transformation_mode = "align_corners"> (r, , s)'
    text = f"c = Conv{SAME}(x, w)\nr = Relu(c)\nz = {resize}\ny = Conv{SAME}(z, v)"
    arrays = {name: array.astype(np.float32) for name, array in weights.items()}
    model = build_network(
        text, {"x": (1, 3, 16, 16)}, **arrays, s=np.array([1, 1, 1.5, 2], np.float32)
    )
    done = quantize_network(model, random_feeds(model, 32))
    found = verify_graph(done.qdq, to_samples(done.feeds), run=RunOptions(threads=1))
    assert found.first is None
    assert found.passed
    assert found.equal == found.intact == (not found.changed_outputs)
    assert found.changes_when_read == (not found.equal)
    assert found.outputs == 32 * 16 * 24 * 32


def test_what_reading_changed_adds_up_over_parts() -> None:
    found, other = Compared({}), Compared({})
    same, apart = np.float32([1, -np.inf, 4]), np.float32([1, -np.inf, 2])
    found.add_change(same, same.copy())
    other.add_change([same, None], [apart, None])
    both = found.merge(other)
    assert (both.outputs, both.changed, both.changed_share) == (6, 1, 0.5)
    for odd in (None, same[:2], same.astype(np.float64), [same]):
        fresh = Compared({})
        fresh.add_change(same, odd)
        assert fresh.changed
        assert fresh.changed_share == 1


def test_nan_and_texts_that_stay_are_no_change() -> None:
    found = Compared({})
    found.add_change(np.float32([np.nan, 1, 2]), np.float32([np.nan, 1, 3]))
    texts = [np.array([bytes([letter] * 9).decode() for letter in b"ab"], object) for _ in "12"]
    assert texts[0].tobytes() != texts[1].tobytes()  # equal texts, other objects
    found.add_change(*texts)
    assert (found.outputs, found.changed, found.changed_share) == (5, 1, 0.5)
    found.add_change(np.array(["a", "b"], object), np.array(["a", "c"], object))
    assert (found.outputs, found.changed, found.changed_share) == (7, 2, 1)


def test_a_zero_of_another_sign_is_a_change() -> None:
    found = Compared({})
    found.add_change(np.float32([0.0, 1]), np.float32([-0.0, 1]))
    assert (found.changed, found.changed_share) == (1, 0)


def test_a_float_model_has_nothing_to_verify() -> None:
    with pytest.raises(ModelError, match="no integer tensor; quantize it first"):
        verify_graph(Graph.from_proto(CASES["relu"]), [], run=RunOptions(threads=1))


def test_without_samples_there_is_nothing_to_say() -> None:
    with pytest.raises(DataError, match="no sample"):
        verify_graph(quantized_case("relu").qdq, [], run=RunOptions(threads=1))


def test_a_sample_that_does_not_run_is_named() -> None:
    done = quantized_case("relu")
    with pytest.raises(DataError, match=r"^sample 0: "):
        verify_graph(
            done.qdq, to_samples([{"x": gaussian_array(1, 5, 8, 8)}]), run=RunOptions(threads=1)
        )


def test_the_model_is_left_alone() -> None:
    done = quantized_case("relu")
    before = done.qdq.to_bytes()
    verify_graph(done.qdq, to_samples(done.feeds[:1]), run=RunOptions(threads=1))
    assert done.qdq.to_bytes() == before
    onnx.checker.check_model(done.qdq.to_proto())
