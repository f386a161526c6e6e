"""The integer executor; ONNX Runtime live, and the float model, are the oracles."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from cases import CASES, case_in_onnx_runtime, quantized_case
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from networks import build_network, find_disagreements, gaussian_array, quantize_network, sqnr_db
from onnx import TensorProto, helper
from parts import SAME, W, conv_network

from ptq.core.errors import DataError, UnsupportedError, UsageError
from ptq.core.targets import TARGETS
from ptq.executor.arithmetics import ort
from ptq.executor.arithmetics.node_site import Kernel, Site
from ptq.executor.executor import Executor
from ptq.kernels import thread_pool
from ptq.model.graph import Graph
from ptq.model.session.session import Session

PIECES = (
    f"{{y}} = Conv{SAME}({{a}}, v, b)",
    "{y} = Conv<pads=[1,1,1,1],group=8>({a}, dw)",
    "{y} = Relu({a})",
    "{y} = Clip({a}, lo, hi)",
    "{y} = Add({a}, {b})",
    "{y} = Mul({a}, k)",
    "{y} = Add(k, {a})",
    "{y} = Sigmoid({a})",
    "{y} = LeakyRelu<alpha=0.2>({a})",
    "{y} = Softmax<axis=1>({a})",
    "{y} = Tanh({a})",
    "{y} = Sub({a}, {b})",
    "{y} = MatMul({a}, m)",
    "{y} = MatMul({a}, {b})",
    "{y} = MaxPool<kernel_shape=[3,3],pads=[1,1,1,1]>({a})",
    "{y} = AveragePool<kernel_shape=[3,3],pads=[1,1,1,1]>({a})",
    "{y} = Transpose<perm=[0,1,3,2]>({a})",
    "{y} = Transpose<perm=[0,2,3,1]>({a})",
    "g{y} = GlobalAveragePool({a})\n{y} = Mul({b}, g{y})",
    "c{y} = Concat<axis=1>({a}, {b})\n{y} = Conv(c{y}, w2)",
    "p{y} = Pad({a}, pads)\n{y} = Conv(p{y}, v)",
    "f{y} = Flatten({a})\nr{y} = Gemm(f{y}, gm)\n{y} = Mul({b}, r{y})",
)
WEIGHTS = {
    "w": W,
    "v": gaussian_array(8, 8, 3, 3, seed=4, scale=0.12),
    "dw": gaussian_array(8, 1, 3, 3, seed=5, scale=0.3),
    "w2": gaussian_array(8, 16, 1, 1, seed=6, scale=0.25),
    "m": gaussian_array(8, 8, seed=7, scale=0.35),
    "gm": gaussian_array(512, 8, seed=8, scale=0.05),
    "b": gaussian_array(8, seed=9, scale=0.2),
    "k": gaussian_array(8, 1, 1, seed=10),
    "lo": np.float32(0),
    "hi": np.float32(6),
    "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
}
PICKS = st.tuples(st.integers(0, len(PIECES) - 1), st.integers(0, 3), st.integers(0, 3))


@settings(
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(PICKS, min_size=2, max_size=7), st.integers(0, 4))
def test_any_network_is_the_same_integers_in_every_form(
    picks: list[tuple[int, int, int]], extra: int
) -> None:
    tensors = ["t0"]
    lines = [f"t0 = Conv{SAME}(x, w, b)"]
    for number, (piece, a, b) in enumerate(picks, 1):
        y = f"t{number}"
        # of the last four tensors, so that many have two readers
        operands = {"a": tensors[-1 - a % len(tensors)], "b": tensors[-1 - b % len(tensors)]}
        lines.append(PIECES[piece].format(y=y, **operands))
        tensors.append(y)
    outputs = [tensors[-1], *([tensors[extra]] if extra < len(tensors) - 1 else [])]
    assert (
        find_disagreements(
            quantize_network(build_network("\n".join(lines), None, outputs, **WEIGHTS))
        )
        == []
    )


@pytest.mark.parametrize("name", CASES)
def test_the_specification_s_arithmetic_computes_what_the_float_model_did(name: str) -> None:
    done = case_in_onnx_runtime(name, "litert")
    before = Session(Graph.from_proto(done.model), threads=1)
    one, other = Executor(done.qdq, "litert"), Executor(done.qlinear, "litert")
    for feed in done.feeds[:2]:
        results, again = one.run(feed), other.run(feed)
        for value, expected in zip(before.outputs, before.run(feed), strict=True):
            assert results[value].dtype == expected.dtype
            assert results[value].shape == expected.shape
            if expected.dtype.kind == "f":
                assert sqnr_db(expected, results[value]) > 25
            else:
                assert np.mean(expected == results[value]) > 0.9
            assert results[value].tobytes() == again[value].tobytes()


def test_an_operator_that_the_arithmetic_cannot_express_is_named() -> None:
    done = quantized_case("average pool padded")
    with pytest.raises(UnsupportedError, match=r"^AveragePool AveragePool_y: "):
        Executor(done.qdq, "litert").run(done.feeds[0])


def test_an_unknown_arithmetic_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="abacus"):
        Executor(quantized_case("relu").qdq, "abacus")


def test_a_feed_that_lacks_an_input_is_refused() -> None:
    with pytest.raises(DataError, match="lacks input x"):
        Executor(quantized_case("relu").qdq).run({})


def test_taps_are_the_integers_in_the_layout_of_the_graph() -> None:
    done = quantized_case("residual")
    names = [v.name for n in done.qdq.nodes if n.op_type == "QuantizeLinear" for v in n.outputs]
    exposed = done.qdq.copy()
    exposed.add_outputs(names)
    theirs = Session(exposed, threads=1).run(done.feeds[0], names)
    ours = Executor(done.qdq).run(done.feeds[0], names)
    for name, array in zip(names, theirs, strict=True):
        assert array.dtype == np.uint8
        assert np.array_equal(ours[name], array)


def test_a_given_tensor_is_taken_instead_of_computed() -> None:
    done = quantized_case("gemm twice")
    executor = Executor(done.qdq)
    (first,) = [s.outputs[0] for s in executor.program.steps if s.name == "Gemm_h"]
    computed = executor.run(done.feeds[0], [first])
    zeros = np.zeros_like(computed[first])
    given_zeros = executor.run(done.feeds[0], [first], {first: zeros})
    assert not np.array_equal(given_zeros["y"], computed["y"])
    assert np.array_equal(given_zeros[first], computed[first])


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_any_batch_runs(batch: int) -> None:
    model = build_network(
        f"c = Conv{SAME}(x, w, b)\nt = Tanh(c)\nf = Flatten(t)\ny = Gemm(f, gm)",
        {"x": ("n", 3, 8, 8)},
        **WEIGHTS,
    )
    done = quantize_network(model)
    executor = Executor(done.qdq)
    feed = {"x": gaussian_array(batch, 3, 8, 8, seed=batch)}
    expected = Session(done.qdq, threads=1).run(feed)[0]
    assert np.array_equal(executor.run(feed)["y"], expected)
    assert executor.table_islands == {"Tanh_t"}


def test_a_unary_island_on_eight_bits_is_a_table() -> None:
    done = quantized_case("tanh between")
    executor = Executor(done.qdq)
    assert executor.islands == {"Tanh_t": ("Tanh",)}
    assert executor.table_islands == {"Tanh_t"}
    assert Executor(quantized_case("mean over channels").qdq).table_islands == frozenset()


@pytest.mark.parametrize(("size", "tables"), [(1, 1), (8, 0)])
def test_an_island_of_one_value_and_constants_of_one_element_is_a_table(
    size: int, tables: int
) -> None:
    body = "a = Add(c, k)\ne = Erf(a)\np = Pow(a, two)\ns = Add(e, p)\nd = Mul(c, s)\n"
    more = {
        "k": gaussian_array(size, 1, 1, seed=6),
        "two": np.float32(2),
        "v": gaussian_array(8, 8, 3, 3),
    }
    done = quantize_network(
        conv_network(f"{body}y = Conv{SAME}(d, v)", **more), skip=("Add", "Mul")
    )
    executor = Executor(done.qdq)
    assert (len(executor.islands), len(executor.table_islands)) == (1, tables)
    expected = Session(done.qdq, threads=1).run(done.feeds[0])[0]
    assert np.array_equal(executor.run(done.feeds[0])["y"], expected)


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_a_table_of_signed_integers_starts_at_the_lowest(target: str) -> None:
    done = quantized_case("tanh between" if target == "ort" else "erf between", target)
    assert Executor(done.qdq, "ort").table_islands
    assert find_disagreements(done) == []


def test_integers_moved_unchanged_may_be_read_with_other_parameters() -> None:
    text = """
        q = QuantizeLinear(x, s, z)
        m = Reshape(q, shape)
        one = DequantizeLinear(q, s, z)
        two = DequantizeLinear(m, t, z)
        a = Mul(one, two)
        r = QuantizeLinear(a, s, z)
        y = DequantizeLinear(r, s, z)
    """
    z = np.uint8(128)
    model = build_network(text, s=np.float32(0.05), t=np.float32(0.01), z=z, shape=[1, 3, 8, 8])
    graph, feed = Graph.from_proto(model), {"x": gaussian_array(1, 3, 8, 8)}
    expected = Session(graph, threads=1).run(feed)[0]
    assert np.array_equal(Executor(graph).run(feed)["y"], expected)


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "nodes",
    [
        "y = MatMul(x, v)",
        "y = Softmax(x)",
        "m = ReduceMean<axes=[1],keepdims=0>(x)\ny = Relu(m)",
        "y = Resize(x, none, twice)",
    ],
)
def test_a_tensor_without_values_passes_as_in_float(nodes: str, target: str, rows: int) -> None:
    used = {
        "v": gaussian_array(6, 5),
        "none": np.zeros(0, np.float32),
        "twice": np.float32([1, 2, 2]),
    }
    used = {name: array for name, array in used.items() if name in nodes}
    model = build_network(nodes, {"x": (1, "n", 6)}, **used)
    done = quantize_network(model, [{"x": gaussian_array(1, 4, 6)}], target=target)
    feed = {"x": gaussian_array(1, rows, 6)}
    expected = Session(Graph.from_proto(model), threads=1, optimize="none").run(feed)[0]
    ours = Executor(done.qdq, TARGETS[target].arithmetic).run(feed)["y"]
    assert ours.shape == expected.shape


def test_a_qlinear_operator_without_a_kernel_is_computed_in_float_as_in_qdq_form() -> None:
    model = build_network("c = Relu(x)\ny = Softmax<axis=1>(c)")
    done = quantize_network(model, target="tpu-mlir")
    integers = Executor(done.qlinear, "tpu-mlir")
    assert list(integers.islands.values()) == [("Softmax",)]
    for feed in done.feeds:
        expected = Executor(done.qdq, "tpu-mlir").run(feed)["y"]
        assert integers.run(feed)["y"].tobytes() == expected.tobytes()


def test_an_output_of_rank_0_is_an_array() -> None:
    done = quantize_network(build_network("y = ReduceMax<keepdims=0>(x)"))
    ours = Executor(done.qdq).run(done.feeds[0])["y"]
    theirs = Session(done.qdq, threads=1).run(done.feeds[0])[0]
    assert isinstance(ours, np.ndarray)
    assert ours.tobytes() == theirs.tobytes()


def test_a_sequence_from_a_float_island_is_returned() -> None:
    model = conv_network("y = Relu(c)\ns = SequenceConstruct(y, c)")
    made = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    model.graph.output.append(made)
    done = quantize_network(model)
    ours, theirs = Executor(done.qdq).run(done.feeds[0])["s"], Session(done.qdq).run(done.feeds[0])
    assert [item.tobytes() for item in ours] == [item.tobytes() for item in theirs[1]]


def test_parallel_runs_prepare_each_kernel_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "get_thread_count", lambda: 3)
    done, prepared = quantized_case("residual"), []
    meeting = threading.Barrier(3, timeout=30)

    def noted(site: Site) -> Kernel:
        prepared.append(site.name)
        time.sleep(0.02)  # long enough for the others to come by
        return ort.KERNELS["Conv"](site)

    executor = Executor(done.qdq, replaced={"Conv": noted})

    def run(feed: dict[str, Any]) -> Any:
        meeting.wait()  # all three are at work
        return executor.run(feed)["y"]

    results = thread_pool.map_in_parallel(run, [done.feeds[0]] * 3)
    assert len(prepared) == len({*prepared}) > 0
    assert all(np.array_equal(r, Executor(done.qdq).run(done.feeds[0])["y"]) for r in results)
