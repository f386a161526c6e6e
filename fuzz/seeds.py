"""Which models does fuzzing start from? Hostile ones, ONNX's one-node models, the tests', and all of them quantized.

python fuzz/seeds.py FOLDER
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import ptq
from ptq.data.splits import input_specs
from ptq.model.graph import Graph
from ptq.solver.recipe import Form, Weights

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from cases import CASES
from foreign_models import INPUT, OUTPUT, foreign
from foreign_patterns import PATTERNS

LARGEST = 6000  # bytes of a seed: mutation of a small one reaches more
RNG = np.random.default_rng(0)

Parts = tuple[list[onnx.NodeProto], list[onnx.TensorProto]]


def weight(name: str, *shape: int) -> onnx.TensorProto:
    """A float32 initializer."""
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def value(name: str, shape: object, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """A graph input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def parts() -> Parts:
    """Conv, Relu, Conv, Add to the first, GlobalAveragePool, Flatten, Gemm."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["r1", "c2"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    shapes = {"w1": (4, 3, 3, 3), "b1": (4,), "w2": (4, 4, 3, 3), "w3": (5, 4), "b3": (5,)}
    return nodes, [weight(name, *shape) for name, shape in shapes.items()]


def model(
    made: Parts | None = None, opset: int = 17, ir: int = 8, outputs: tuple[str, ...] = ("y",)
) -> onnx.ModelProto:
    """The nodes as a model of an image input."""
    nodes, constants = made or parts()
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", ["N", 3, 6, 6])],
        [value(name, None) for name in outputs],
        constants,
    )
    for output in graph.output:
        output.type.tensor_type.shape.SetInParent()
    graph.output[0].type.tensor_type.shape.dim.extend(
        [onnx.TensorShapeProto.Dimension(dim_param="N"), onnx.TensorShapeProto.Dimension()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def hostile() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Models that are wrong, or right and rare."""
    yield "plain", model()
    yield "opset7", model(opset=7, ir=3)
    yield "opset99", model(opset=99)
    yield "no_outputs", model(outputs=("y",))
    nodes, constants = parts()
    nodes[2].input[0] = "ghost"
    yield "dangling", model((nodes, constants))
    nodes, constants = parts()
    nodes[0].input[0] = "s"
    yield "cycle", model((nodes, constants))
    nodes, constants = parts()
    yield "unsorted", model((nodes[::-1], constants))
    for name, number in (("nan", np.nan), ("inf", np.inf), ("tiny", 1e-45), ("huge", 3e38)):
        nodes, constants = parts()
        array = numpy_helper.to_array(constants[0]).copy()
        array.flat[3] = number
        constants[0].CopyFrom(numpy_helper.from_array(array, "w1"))
        yield name, model((nodes, constants))
    nodes, constants = parts()
    constants[2].raw_data = constants[2].raw_data[:9]
    yield "short_data", model((nodes, constants))
    nodes, constants = parts()
    constants[2].dims[0] = 2**31
    yield "huge_dims", model((nodes, constants))
    nodes, constants = parts()
    constants[2].ClearField("raw_data")
    constants[2].data_location = TensorProto.EXTERNAL
    for key, text in (
        ("location", "../../etc/passwd"),
        ("offset", "-1"),
        ("length", "99999999999"),
    ):
        constants[2].external_data.add(key=key, value=text)
    yield "external", model((nodes, constants))
    yield from branches()
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    yield "quantized", model((nodes, [numpy_helper.from_array(np.float32(0.1), "s")]))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Where", ["mask", "m", "low"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"], axis=-1),
    ]
    masked = [weight("w", 6, 6), numpy_helper.from_array(np.tri(6, dtype=bool), "mask")]
    masked.append(numpy_helper.from_array(np.float32(-np.inf), "low"))
    yield "mask", model((nodes, masked))


def branches() -> Iterator[tuple[str, onnx.ModelProto]]:
    """If and Loop that read tensors from outside."""
    then = helper.make_graph(
        [helper.make_node("Relu", ["c1"], ["t"])], "then", [], [value("t", None)]
    )
    other = helper.make_graph(
        [helper.make_node("MatMul", ["c1", "wi"], ["e"])],
        "else",
        [],
        [value("e", None)],
        [weight("wi", 6, 6)],
    )
    conv = helper.make_node("Conv", ["x", "w1"], ["c1"])
    choose = helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)
    flag = numpy_helper.from_array(np.array(True), "flag")
    yield "if", model(([conv, choose], [weight("w1", 4, 3, 1, 1), flag]))
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["again"]),
            helper.make_node("MatMul", ["state", "wi"], ["next"]),
        ],
        "body",
        [
            value("i", [], TensorProto.INT64),
            value("go", [], TensorProto.BOOL),
            value("state", None),
        ],
        [value("again", [], TensorProto.BOOL), value("next", None)],
    )
    loop = helper.make_node("Loop", ["count", "", "c1"], ["y"], body=body)
    count = numpy_helper.from_array(np.array(2), "count")
    yield "loop", model(([conv, loop], [weight("w1", 4, 3, 1, 1), weight("wi", 6, 6), count]))


def one_node() -> Iterator[tuple[str, onnx.ModelProto]]:
    """The small models with a float input of ONNX's own tests."""
    for case in collect_testcases(None):
        made = case.model
        if made is None or made.ByteSize() > LARGEST:
            continue
        if any(i.type.tensor_type.elem_type == TensorProto.FLOAT for i in made.graph.input):
            yield case.name, made


def of_tests() -> Iterator[tuple[str, onnx.ModelProto]]:
    """The small networks of ptq's own tests, and what others' quantizers write."""
    for name, made in CASES.items():
        if made.ByteSize() <= LARGEST:
            yield f"case {name}".replace("/", "-"), made
    for name, pattern in PATTERNS.items():
        made = foreign(
            INPUT + pattern.nodes + OUTPUT, pattern.shape, opset=pattern.opset, **pattern.constants
        )
        yield f"foreign {name}".replace("/", "-"), made.to_proto()


def quantized(
    given: Iterable[tuple[str, onnx.ModelProto]],
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """What is made of models: QDQ or QOperator form, int8 or uint8 weights, one scale a channel or a tensor."""
    for number, (name, made) in enumerate(given):
        form: Form = "qdq" if number % 2 else "qoperator"
        weights: Weights = "u8" if number // 2 % 2 else "s8"
        try:
            result = ptq.quantize(made, samples_of(made), form=form, weights=weights, threads=1,
                                  per_tensor=number % 3 == 0)  # fmt: skip
        except ptq.PtqError:
            continue
        proto = result.graph.to_proto()
        if proto.ByteSize() <= LARGEST and any("Quantize" in n.op_type for n in proto.graph.node):
            yield f"{name} {form} {weights}", proto


def samples_of(made: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    """Two Gaussian samples."""
    specs = input_specs(Graph.from_proto(made))
    return [
        {s.name: RNG.standard_normal([d or 2 for d in s.shape]).astype(s.dtype) for s in specs}
        for _ in range(2)
    ]


def main() -> None:
    """Write the seeds."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    seeds = [*hostile(), *one_node(), *of_tests()]
    for name, made in itertools.chain(seeds, quantized(seeds)):
        (folder / name).write_bytes(made.SerializeToString())
    (folder / "text").write_bytes(b"<!DOCTYPE html><html><body>404</body></html>")


if __name__ == "__main__":
    main()
