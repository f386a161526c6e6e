"""Nodes that work along the batch: samples are then run one by one. What ONNX Runtime gives is the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from networks import build_network, gaussian_array
from numpy.typing import NDArray
from onnx import TensorProto

from ptq.core.run_options import DEFAULT_RUN
from ptq.evaluation.batching.batch_size import choose_batch
from ptq.model.graph import Graph
from ptq.model.size_values import SizeValues

FROM_SPACE = (
    "c = Concat<axis = 1>(x, x); r = Unsqueeze(c, more); t = Transpose<perm = [1, 0, 2, 3]>(r); "
    "s = SpaceToDepth<blocksize = 2>(t); a = Transpose<perm = [1, 0, 2, 3]>(s); "
)
"""tf2onnx's SpaceToBatchND: each place of a block becomes a sample of its own."""
CONSTANTS = {
    "wx": gaussian_array(1, 12, 6, seed=1),
    "wr": gaussian_array(1, 12, 4, seed=2),
    "square": gaussian_array(6, 6, seed=3),
    "scale": np.ones(6, np.float32),
    "shift": np.zeros(6, np.float32),
    "all": np.array([-1, 30]),
    "rows": np.array([-1, 5, 6]),
    "zero": np.array(0),
    "one": np.array(1),
    "first": np.array([0]),
    "more": np.array([1]),
    "places": np.array([[0, 1], [0, 3]]),
    "values": gaussian_array(2, 6, seed=4),
    "row": np.zeros((1, 1, 6), np.int64),
    "patch": np.full((1, 1, 6), 7, np.float32),
    "flat": np.array([-1, 6]),
    "steps_first": np.array([5, -1, 6]),
    "wide": np.array([30, -1]),
    "last": np.array([-1000]),
    "back": np.array([-1]),
    "edges": np.array([1, 2]),
    "some": np.array([True, False, True]),
    "half": np.array(0.5, np.float32),
    "image": np.array([0, 1, 5, 6]),
    "table": gaussian_array(5, 6, seed=5),
    "second": np.array([[1]]),
    "last_axis": np.array([3]),
    "channels": np.array([1, -1, 3, 5]),
    "side": np.array([1, 1, -1, 10]),
    "pixels": np.array([-1, 12, 5, 1]),
    "double_rows": np.array([-1, 5, 12]),
    "double": np.array([2, 1, 1], np.float32),
    "halved": np.array([0.5, 1, 1], np.float32),
    "longer": np.array([1, 2, 1], np.float32),
    "window": gaussian_array(1, 1, 3, 3, seed=6),
    "larger": np.array([1, 1, 2, 2], np.float32),
}
NUMBERS = (
    "s = Shape(x); n = Gather(s, zero); r = Range(zero, n, one); u = Unsqueeze(r, edges); "
    "q = Cast<to = 7>(x); k = Mul(q, zero); "
)
"""The number of each sample, and zeros that samples decide."""
MIXED = {
    "the largest of all": "a = Abs(x); m = ReduceMax<keepdims = 0>(a); y = Div(x, m)",
    "the mean of samples": "m = ReduceMean<axes = [0]>(x); y = Sub(x, m)",
    "softmax over samples": "y = Softmax<axis = 0>(x)",
    "sums along samples": "y = CumSum(x, zero)",
    "the first sample": "f = Gather<axis = 0>(x, zero); y = Sub(x, f)",
    "the first samples": "f = Slice(x, first, more, first); y = Sub(x, f)",
    "the normalization of all samples": "y = MeanVarianceNormalization<axes = [0, 1]>(x)",
    "samples as steps of a recurrence": "h, l = GRU<hidden_size = 4>(x, wx, wr); y = Squeeze(h, more)",
    "each sample with each": (
        "r = Reshape(x, all); t = Transpose<perm = [1, 0]>(r); p = MatMul(r, t); "
        "q = MatMul(p, r); y = Reshape(q, rows)"
    ),
    "a sum that is equal for all": 'e = Einsum<equation = "nij->ij">(x); y = Add(x, e)',
    "writes into the first sample": "y = ScatterND(x, places, values)",
    "writes into the first row": "y = ScatterElements<axis = 1>(x, row, patch)",
    "a triangle of samples": ("r = Reshape(x, all); t = Trilu<upper = 0>(r); y = Reshape(t, rows)"),
    "a diagonal of samples": (
        "r = Reshape(x, all); e = EyeLike(r); t = Add(r, e); y = Reshape(t, rows)"
    ),
    "positions among all pixels": (
        "i = Reshape(x, image); m, p = MaxPool<kernel_shape = [2, 2]>(i); y = Cast<to = 1>(p)"
    ),
    "steps that become samples": "r = Reshape(x, wide); t = Transpose<perm = [1, 0]>(r); y = Reshape(t, rows)",
    "rows of other samples": (
        "t = Transpose<perm = [1, 0, 2]>(x); f = Reshape(t, flat); r = Reshape(f, rows); y = Abs(r)"
    ),
    "samples in reverse": "y = Slice(x, back, last, first, back)",
    "the number of the sample": (
        "s = Shape(x); n = Gather(s, zero); r = Range(zero, n, one); c = Cast<to = 1>(r); "
        "u = Unsqueeze(c, edges); y = Add(x, u)"
    ),
    "the number of samples": (
        "s = Shape(x); n = Gather(s, zero); c = Cast<to = 1>(n); y = Mul(x, c)"
    ),
    "the largest of the distinct values": (
        "u = Unique<sorted = 1>(x); m = ReduceMax<keepdims = 0>(u); y = Sub(x, m)"
    ),
    "some of all values": ("c = Compress(x, some); m = ReduceMax<keepdims = 0>(c); y = Sub(x, m)"),
    "positions of values": (
        "g = Greater(x, half); z = NonZero(g); c = Cast<to = 1>(z); m = ReduceMax<keepdims = 0>(c); y = Sub(x, m)"
    ),
    "a class that is picked from the batch": (
        "m = ReduceMean<axes = [1, 2], keepdims = 0>(x); q = Cast<to = 7>(m); k = Mul(q, zero); "
        "g = Gather<axis = 0>(x, k); y = Sub(x, g)"
    ),
    **{
        f"a row of a table by the number of the sample, {how}": f"{NUMBERS}{p}; y = Gather<axis = 0>(table, p)"
        for how, p in {
            "added": "p = Add(k, u)",
            "subtracted": "p = Sub(k, u)",
            "as the larger one": "p = Max(k, u)",
            "as the smaller one": "e = Add(k, one); p = Min(e, u)",
            "chosen": "z = Equal(q, k); p = Where(z, u, k)",
            "added, then multiplied": "m = Add(k, u); o = Mul(m, u); f = Gather(s, one); p = Mod(o, f)",
            "which chooses": "m = Add(k, u); z = Less(m, one); p = Where(z, k, one)",
        }.items()
    },
    "a step by the number of the sample": (
        NUMBERS + "p = Add(k, u); y = GatherElements<axis = 1>(x, p)"
    ),
    "the number of the sample and its values": (
        "s = Shape(x); n = Gather(s, zero); r = Range(zero, n, one); u = Unsqueeze(r, edges); "
        "q = Cast<to = 7>(x); p = Add(q, u); y = Cast<to = 1>(p)"
    ),
    "samples as channels that become space": (
        "c = Concat<axis = 2>(x, x); r = Reshape(c, channels); "
        "d = DepthToSpace<blocksize = 2>(r); y = Reshape(d, double_rows)"
    ),
    "space of samples that becomes channels": (
        "c = Concat<axis = 2>(x, x); r = Reshape(c, side); "
        "d = SpaceToDepth<blocksize = 2>(r); y = Reshape(d, double_rows)"
    ),
    "places of a block that become samples": FROM_SPACE + "y = Reshape(a, double_rows)",
    "places of a block that become space in another order": (
        FROM_SPACE + "d = Transpose<perm = [1, 0, 2, 3]>(a); "
        'e = DepthToSpace<blocksize = 2, mode = "CRD">(d); f = Transpose<perm = [1, 0, 2, 3]>(e); '
        "y = Squeeze(f, more)"
    ),
    "samples between samples": (
        'd = Resize<mode = "linear">(x, , double); y = Resize<mode = "linear">(d, , halved)'
    ),
    "frequencies of samples": (
        "u = Unsqueeze(x, last_axis); d = DFT<axis = 0>(u); y = ReduceSum<keepdims = 0>(d, last_axis)"
    ),
    "a sum of the batch before other axes": 'e = Einsum<equation = "n...->...">(x); y = Add(x, e)',
    "a scale of all values": "q, s, z = DynamicQuantizeLinear(x); y = DequantizeLinear(q, s, z)",
}
APART = {
    "a softmax of features": "y = Softmax<axis = -1>(x)",
    "sums along steps": "y = CumSum(x, one)",
    "the mean of steps": "m = ReduceMean<axes = [1]>(x); y = Sub(x, m)",
    "the largest of each": "m = ReduceMax<axes = [1, 2], keepdims = 1>(x); y = Div(x, m)",
    "layer normalization": "y = LayerNormalization<axis = -1>(x, scale, shift)",
    "a recurrence along steps": (
        "t = Transpose<perm = [1, 0, 2]>(x); h, l = GRU<hidden_size = 4>(t, wx, wr); "
        "s = Squeeze(h, more); y = Transpose<perm = [1, 0, 2]>(s)"
    ),
    "attention": (
        "k = Transpose<perm = [0, 2, 1]>(x); p = MatMul(x, k); s = Softmax(p); y = MatMul(s, x)"
    ),
    "dense layers of rows": "m = MatMul(x, square); r = Reshape(m, all); y = Reshape(r, rows)",
    "writes into a step of each": (
        "t = Transpose<perm = [1, 0, 2]>(x); f = Gather<axis = 0>(t, more); n = Neg(f); "
        "w = ScatterND(t, second, n); y = Transpose<perm = [1, 0, 2]>(w)"
    ),
    "writes into each by its number": (
        "s = Shape(x); n = Gather(s, zero); r = Range(zero, n, one); u = Unsqueeze(r, more); "
        "o = Mul(u, zero); i = Concat<axis = 1>(u, o); f = Gather<axis = 1>(x, one); y = ScatterND(x, i, f)"
    ),
    "the largest step of each": (
        "m = ReduceMax<axes = [2], keepdims = 0>(x); a = ArgMax<axis = 1, keepdims = 0>(m); s = Shape(x); "
        "n = Gather(s, zero); r = Range(zero, n, one); k = Unsqueeze(r, more); j = Unsqueeze(a, more); "
        "i = Concat<axis = 1>(k, j); y = GatherND(x, i)"
    ),
    "the largest step of each, among all": (
        "m = ReduceMax<axes = [2], keepdims = 0>(x); a = ArgMax<axis = 1, keepdims = 0>(m); s = Shape(x); "
        "n = Gather(s, zero); r = Range(zero, n, one); five = Gather(s, one); k = Mul(r, five); "
        "i = Add(k, a); f = Reshape(x, flat); y = Gather<axis = 0>(f, i)"
    ),
    "the largest step of each, among all, where negative places count from the end": (
        "m = ReduceMax<axes = [2], keepdims = 0>(x); a = ArgMax<axis = 1, keepdims = 0>(m); s = Shape(x); "
        "n = Gather(s, zero); r = Range(zero, n, one); five = Gather(s, one); k = Mul(r, five); i = Add(k, a); "
        "z = Less(i, zero); o = Mul(n, five); j = Add(i, o); p = Where(z, j, i); f = Reshape(x, flat); "
        "y = Gather<axis = 0>(f, p)"
    ),
    "steps of all samples as rows": (
        "t = Transpose<perm = [1, 0, 2]>(x); f = Reshape(t, flat); m = MatMul(f, square); "
        "r = Reshape(m, steps_first); y = Transpose<perm = [1, 0, 2]>(r)"
    ),
    "all samples twice": (
        "n = Neg(x); d = Concat<axis = 0>(x, n); a, b = Split<axis = 0>(d); m = Exp(a); y = Add(m, b)"
    ),
    "positions that are put back": (
        "i = Reshape(x, image); m, p = MaxPool<kernel_shape = [1, 2], strides = [1, 2]>(i); "
        "u = MaxUnpool<kernel_shape = [1, 2], strides = [1, 2]>(m, p); y = Relu(u)"
    ),
    "a mean by the number of steps": (
        "t = ReduceSum<keepdims = 1>(x, more); s = Shape(x); n = Gather(s, one); c = Cast<to = 1>(n); y = Div(t, c)"
    ),
    "places of steps": (
        "s = Shape(x); n = Gather(s, one); r = Range(zero, n, one); e = Gather<axis = 0>(table, r); y = Add(x, e)"
    ),
    "a triangle of steps": "y = Trilu(x)",
    "frequencies of steps": (
        "u = Unsqueeze(x, last_axis); d = DFT<axis = 1>(u); y = ReduceSum<keepdims = 0>(d, last_axis)"
    ),
    "steps between steps": 'y = Resize<mode = "linear">(x, , longer)',
    "space beside samples as channels": (
        "u = Unsqueeze(x, more); t = Transpose<perm = [1, 0, 2, 3]>(u); "
        'd = Resize<mode = "nearest">(t, , larger); y = Squeeze(d, first)'
    ),
    "channels that become space": (
        "c = Concat<axis = 2>(x, x); r = Reshape(c, pixels); "
        "d = DepthToSpace<blocksize = 2>(r); y = Reshape(d, double_rows)"
    ),
    "a dilated convolution": (
        FROM_SPACE
        + "b = Conv<pads = [1, 1, 1, 1]>(a, window); d = Transpose<perm = [1, 0, 2, 3]>(b); "
        "e = DepthToSpace<blocksize = 2>(d); f = Transpose<perm = [1, 0, 2, 3]>(e); y = Squeeze(f, more)"
    ),
    "a product of features": 'y = Einsum<equation = "nij,jk->nik">(x, square)',
}


def load(text: str) -> Graph:
    constants = {name: array for name, array in CONSTANTS.items() if name in text}
    lines = text.replace("; ", "\n")
    return Graph.from_proto(build_network(lines, {"x": ("n", 5, 6)}, **constants))


def differs_in_a_batch(graph: Graph) -> bool:
    session = onnxruntime.InferenceSession(graph.to_bytes())
    x = gaussian_array(4, 5, 6, seed=9)
    [together] = session.run(None, {"x": x})
    alone = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
    return bool(np.abs(together - alone).max() > 1e-4)


@pytest.mark.parametrize("text", MIXED.values(), ids=MIXED)
def test_samples_that_a_node_mixes_run_one_by_one(text: str) -> None:
    graph = load(text)
    assert differs_in_a_batch(graph)
    assert choose_batch(DEFAULT_RUN, graph) == 1


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_samples_that_no_node_mixes_run_at_once(text: str) -> None:
    graph = load(text)
    assert not differs_in_a_batch(graph)
    assert choose_batch(DEFAULT_RUN, graph) == DEFAULT_RUN.evaluation_batch


@pytest.mark.parametrize(("length", "batch"), [("u", 1), ("k", DEFAULT_RUN.evaluation_batch)])
def test_integers_with_the_number_of_the_sample_may_be_an_output(length: str, batch: int) -> None:
    text = f"{NUMBERS}y = Add(k, {length})".replace("; ", "\n")
    constants = {name: CONSTANTS[name] for name in ("zero", "one", "edges")}
    model = build_network(text, {"x": ("n", 5, 6)}, **constants)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    graph = Graph.from_proto(model)
    assert differs_in_a_batch(graph) == (batch == 1)
    assert choose_batch(DEFAULT_RUN, graph) == batch


@pytest.mark.parametrize(("axis", "batch"), [(0, 1), (1, DEFAULT_RUN.evaluation_batch)])
def test_the_axis_of_a_dft_may_be_an_array(axis: int, batch: int) -> None:
    shape = {"x": ("n", 5, 6, 2)}
    model = build_network("y = DFT(x, , axis)", shape, opset=20, axis=np.array([axis]))
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)  # nobody infers a shape here
    graph = Graph.from_proto(model)
    assert choose_batch(DEFAULT_RUN, graph) == batch


def test_a_softmax_before_opset_13_reads_all_axes_behind_its_own() -> None:
    for axis, batch in ((0, 1), (1, DEFAULT_RUN.evaluation_batch)):
        model = build_network(f"y = Softmax<axis = {axis}>(x)", {"x": ("n", 5, 6)}, opset=11)
        graph = Graph.from_proto(model)
        assert differs_in_a_batch(graph) == (batch == 1)
        assert choose_batch(DEFAULT_RUN, graph) == batch


def test_a_table_of_positions_may_be_shorter_than_usual_inputs() -> None:
    text = "s = Shape(x)\nn = Gather(s, one)\nr = Range(zero, n, one)\ne = Gather<axis = 0>(table, r)\ny = Add(x, e)"
    table = {"table": gaussian_array(20, 6), "zero": np.int64(0), "one": np.int64(1)}
    graph = Graph.from_proto(build_network(text, {"x": ("n", "s", 6)}, **table))
    assert not differs_in_a_batch(graph)
    assert choose_batch(DEFAULT_RUN, graph) == DEFAULT_RUN.evaluation_batch


def test_weights_are_not_computed_and_masks_only_for_a_few_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, compute = [], SizeValues.compute

    def measure(self: SizeValues, name: str) -> NDArray[Any]:
        found = compute(self, name)
        sizes.append(found.size)
        return found

    monkeypatch.setattr(SizeValues, "compute", measure)
    text = (
        "w = DequantizeLinear(q, scale)\nm = MatMul(x, w)\ns = Shape(x)\nn = Slice(s, first, second)\n"
        "f = Concat<axis = 0>(n, rest)\ne = Expand(mask, f)\ny = Add(m, e)"
    )
    constants = {
        "q": np.ones((6, 6), np.int8), "scale": np.float32(0.5), "mask": gaussian_array(1, 5, 6),
        "first": np.int64([0]), "second": np.int64([1]), "rest": np.int64([5, 6]),
    }  # fmt: skip
    graph = Graph.from_proto(build_network(text, {"x": ("n", 5, 6)}, **constants))
    assert not differs_in_a_batch(graph)
    assert choose_batch(DEFAULT_RUN, graph) == DEFAULT_RUN.evaluation_batch
    assert sorted(sizes) == [30, 90]  # the mask for one sample and for three
