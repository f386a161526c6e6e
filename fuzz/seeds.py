"""Seeds of the fuzzer: hostile models, ONNX's one-node models, the tests' models, and quantized forms of them.

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
from ptq.data.splits import list_input_specs
from ptq.model.graph import Graph
from ptq.solver.recipe import QuantizedForm, WeightFormat

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from cases import CASES
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph
from foreign_patterns import PATTERNS

MAX_BYTES = 6000  # bytes of a seed: mutation of a small one reaches more
RNG = np.random.default_rng(0)

NodesAndWeights = tuple[list[onnx.NodeProto], list[onnx.TensorProto]]


def random_weight(name: str, *shape: int) -> onnx.TensorProto:
    """Make a float32 initializer."""
    return numpy_helper.from_array(RNG.standard_normal(shape).astype(np.float32), name)


def value_info(name: str, shape: object, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """Make a graph input or output."""
    return helper.make_tensor_value_info(name, dtype, shape)


def example_nodes() -> NodesAndWeights:
    """Make the nodes Conv, Relu, Conv, Add to the first, GlobalAveragePool, Flatten, Gemm."""
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
    return nodes, [random_weight(name, *shape) for name, shape in shapes.items()]


def build_model(
    made: NodesAndWeights | None = None,
    opset: int = 17,
    ir: int = 8,
    outputs: tuple[str, ...] = ("y",),
) -> onnx.ModelProto:
    """Build a model with an image input from nodes."""
    nodes, constants = made or example_nodes()
    graph = helper.make_graph(
        nodes,
        "g",
        [value_info("x", ["N", 3, 6, 6])],
        [value_info(name, None) for name in outputs],
        constants,
    )
    for output in graph.output:
        output.type.tensor_type.shape.SetInParent()
    graph.output[0].type.tensor_type.shape.dim.extend(
        [onnx.TensorShapeProto.Dimension(dim_param="N"), onnx.TensorShapeProto.Dimension()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)


def hostile_models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Build models that are invalid, or valid and rare."""
    yield "plain", build_model()
    yield "opset7", build_model(opset=7, ir=3)
    yield "opset99", build_model(opset=99)
    yield "no_outputs", build_model(outputs=("y",))
    nodes, constants = example_nodes()
    nodes[2].input[0] = "ghost"
    yield "dangling", build_model((nodes, constants))
    nodes, constants = example_nodes()
    nodes[0].input[0] = "s"
    yield "cycle", build_model((nodes, constants))
    nodes, constants = example_nodes()
    yield "unsorted", build_model((nodes[::-1], constants))
    for name, number in (("nan", np.nan), ("inf", np.inf), ("tiny", 1e-45), ("huge", 3e38)):
        nodes, constants = example_nodes()
        array = numpy_helper.to_array(constants[0]).copy()
        array.flat[3] = number
        constants[0].CopyFrom(numpy_helper.from_array(array, "w1"))
        yield name, build_model((nodes, constants))
    nodes, constants = example_nodes()
    constants[2].raw_data = constants[2].raw_data[:9]
    yield "short_data", build_model((nodes, constants))
    nodes, constants = example_nodes()
    constants[2].dims[0] = 2**31
    yield "huge_dims", build_model((nodes, constants))
    nodes, constants = example_nodes()
    constants[2].ClearField("raw_data")
    constants[2].data_location = TensorProto.EXTERNAL
    for key, text in (
        ("location", "../../etc/passwd"),
        ("offset", "-1"),
        ("length", "99999999999"),
    ):
        constants[2].external_data.add(key=key, value=text)
    yield "external", build_model((nodes, constants))
    yield from branch_models()
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
    ]
    yield "quantized", build_model((nodes, [numpy_helper.from_array(np.float32(0.1), "s")]))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Where", ["mask", "m", "low"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"], axis=-1),
    ]
    masked = [random_weight("w", 6, 6), numpy_helper.from_array(np.tri(6, dtype=bool), "mask")]
    masked.append(numpy_helper.from_array(np.float32(-np.inf), "low"))
    yield "mask", build_model((nodes, masked))


def branch_models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Build models with an If and a Loop that read outer tensors."""
    then = helper.make_graph(
        [helper.make_node("Relu", ["c1"], ["t"])], "then", [], [value_info("t", None)]
    )
    other = helper.make_graph(
        [helper.make_node("MatMul", ["c1", "wi"], ["e"])],
        "else",
        [],
        [value_info("e", None)],
        [random_weight("wi", 6, 6)],
    )
    conv = helper.make_node("Conv", ["x", "w1"], ["c1"])
    choose = helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)
    flag = numpy_helper.from_array(np.array(True), "flag")
    yield "if", build_model(([conv, choose], [random_weight("w1", 4, 3, 1, 1), flag]))
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["again"]),
            helper.make_node("MatMul", ["state", "wi"], ["next"]),
        ],
        "body",
        [
            value_info("i", [], TensorProto.INT64),
            value_info("go", [], TensorProto.BOOL),
            value_info("state", None),
        ],
        [value_info("again", [], TensorProto.BOOL), value_info("next", None)],
    )
    loop = helper.make_node("Loop", ["count", "", "c1"], ["y"], body=body)
    count = numpy_helper.from_array(np.array(2), "count")
    yield (
        "loop",
        build_model(
            ([conv, loop], [random_weight("w1", 4, 3, 1, 1), random_weight("wi", 6, 6), count])
        ),
    )


def one_node_models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Load the small models with a float input from ONNX's own tests."""
    for case in collect_testcases(None):
        made = case.model
        if made is None or made.ByteSize() > MAX_BYTES:
            continue
        if any(i.type.tensor_type.elem_type == TensorProto.FLOAT for i in made.graph.input):
            yield case.name, made


def models_of_tests() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Load the small networks of ptq's tests, and models from the quantizers of other tools."""
    for name, made in CASES.items():
        if made.ByteSize() <= MAX_BYTES:
            yield f"case {name}".replace("/", "-"), made
    for name, pattern in PATTERNS.items():
        made = foreign_graph(
            INPUT_QDQ + pattern.nodes + OUTPUT_QDQ,
            pattern.shape,
            opset=pattern.opset,
            **pattern.constants,
        )
        yield f"foreign {name}".replace("/", "-"), made.to_proto()


def quantized_models(
    given: Iterable[tuple[str, onnx.ModelProto]],
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Quantize models: QDQ or QOperator form, int8 or uint8 weights, per-channel or per-tensor."""
    for number, (name, made) in enumerate(given):
        form: QuantizedForm = "qdq" if number % 2 else "qoperator"
        weights: WeightFormat = "u8" if number // 2 % 2 else "s8"
        try:
            result = ptq.quantize(made, gaussian_samples(made), form=form, weights=weights, threads=1,
                                  per_tensor=number % 3 == 0)  # fmt: skip
        except ptq.PtqError:
            continue
        proto = result.graph.to_proto()
        if proto.ByteSize() <= MAX_BYTES and any("Quantize" in n.op_type for n in proto.graph.node):
            yield f"{name} {form} {weights}", proto


def gaussian_samples(made: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    """Make two Gaussian samples."""
    specs = list_input_specs(Graph.from_proto(made))
    return [
        {s.name: RNG.standard_normal([d or 2 for d in s.shape]).astype(s.dtype) for s in specs}
        for _ in range(2)
    ]


def main() -> None:
    """Write the seeds to a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    seeds = [*hostile_models(), *one_node_models(), *models_of_tests()]
    for name, made in itertools.chain(seeds, quantized_models(seeds)):
        (folder / name).write_bytes(made.SerializeToString())
    (folder / "text").write_bytes(b"<!DOCTYPE html><html><body>404</body></html>")


if __name__ == "__main__":
    main()
