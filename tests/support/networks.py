"""Small networks from a few lines of ONNX's text form, and their way through the whole stack."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import exact_sums
import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from ptq.calibration.collect import observe
from ptq.core.plan import Plan
from ptq.core.run_options import RunOptions
from ptq.core.target import Target
from ptq.core.targets import TARGETS
from ptq.data import Sample
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.session.exposed_session import CollectedTensors
from ptq.model.session.session import Session
from ptq.observers.calibration_file import Calibration
from ptq.rewrite.emit.to_qdq import to_qdq
from ptq.rewrite.emit.to_qlinear import to_qlinear
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.assign import list_tensors_to_observe
from ptq.solver.quantizer import CalibratedModel
from ptq.solver.recipe import Recipe
from ptq.solver.skipped_nodes import SKIPPED_REASON
from ptq.solver.solve import solve

Array = Any
Shape = Sequence[int | str | None] | None


def build_network(
    nodes: str,
    inputs: Mapping[str, Shape] | None = None,
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 17,
    types: Mapping[str, int] | None = None,
    domains: Mapping[str, int] | None = None,
    **weights: Array,
) -> onnx.ModelProto:
    """A model of the nodes, one a line; ``x`` of 1×3×8×8 and ``y`` where nothing is said.

    ``domains`` gives the versions of other domains than ONNX's own.
    """
    types = types or {}

    def info(name: str, shape: Shape) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape)

    graph = helper.make_graph(
        [onnx.parser.parse_node(line) for line in nodes.splitlines() if line.strip()],
        "network",
        [info(name, shape) for name, shape in (inputs or {"x": (1, 3, 8, 8)}).items()],
        [info(name, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid(*each) for each in {"": opset, **(domains or {})}.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model)
    for output, known in zip(model.graph.output, inferred.graph.output, strict=True):
        output.CopyFrom(known)
    return model


def gaussian_array(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Gaussian float32."""
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def random_feeds(model: onnx.ModelProto, count: int = 4, seed: int = 0) -> list[dict[str, Array]]:
    """Gaussian samples for every input; whole numbers 0 and 1 where it takes integers."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        feed = {}
        for value in model.graph.input:
            tensor = value.type.tensor_type
            shape = [d.dim_value or 1 for d in tensor.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            array = rng.normal(0, 1, shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
            feed[value.name] = np.asarray(array).astype(dtype)
        made.append(feed)
    return made


def to_samples(these: Iterable[Mapping[str, Array]]) -> list[Sample]:
    """The feeds as samples without labels."""
    return [Sample(f"sample {i}", dict(feed), ()) for i, feed in enumerate(these)]


def prepare_and_calibrate(
    model: onnx.ModelProto, these: Iterable[Mapping[str, Array]]
) -> CalibratedModel:
    """The model prepared, with its statistics on these feeds."""
    source = Graph.from_proto(model)
    prepared = prepare(source)
    wanted = CollectedTensors(list_tensors_to_observe(prepared.graph))
    seen = observe(prepared.graph, to_samples(these), wanted, run=RunOptions(threads=1))
    return CalibratedModel("test", source, prepared, seen)


@dataclass(frozen=True, eq=False)
class QuantizedNetwork:
    """A model on its way: what it was, its statistics and plan, and what it became."""

    model: onnx.ModelProto
    feeds: list[dict[str, Array]]
    prepared: Graph
    calibration: Calibration
    plan: Plan
    qdq: Graph

    @property
    def qlinear(self) -> Graph:
        """The QOperator form."""
        return to_qlinear(self.qdq)

    def float_reasons(self) -> dict[str, str]:
        """Nodes left float, by operator and reason."""
        ops = {node.name: node.op_type for node in self.prepared.nodes}
        return {ops[name]: why for name, why in self.plan.floats.items()}


def quantize_network(
    model: onnx.ModelProto,
    these: list[dict[str, Array]] | None = None,
    *,
    target: str | Target = "ort",
    method: str = "minmax",
    per_tensor: bool = False,
    reduced: bool = False,
    skip: Iterable[str] = (),
) -> QuantizedNetwork:
    """The model quantized on Gaussian samples, or on these."""
    these = these or random_feeds(model)
    row = TARGETS[target] if isinstance(target, str) else target
    graph = prepare(Graph.from_proto(model)).graph
    calibration = observe(
        graph,
        to_samples(these),
        CollectedTensors(list_tensors_to_observe(graph)),
        run=RunOptions(threads=1),
    )
    recipe = Recipe(
        row.name,
        method,
        per_tensor=per_tensor,
        float_nodes=dict.fromkeys(skip, SKIPPED_REASON),
        weights="reduced" if reduced else "s8",
    )
    plan = solve(graph, calibration.tensors, row, recipe)
    return QuantizedNetwork(model, these, graph, calibration, plan, to_qdq(graph, plan))


def optimized_kernels(graph: Graph, level: str = "all") -> Counter[str]:
    """The operators of the graph that ONNX Runtime runs after its own optimizations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        Session(graph, threads=1, optimize=level, save_optimized=str(path))
        model = onnx.load(path)
    return Counter(node.op_type for node in model.graph.node)


def run_all_forms(done: QuantizedNetwork, feed: Mapping[str, Array]) -> dict[str, list[Array]]:
    """Outputs of every form of the integer function on one feed.

    ONNX Runtime runs a QDQ graph in floats where its optimizations are off, which is another function.
    """
    names = [value.name for value in done.model.graph.output]
    results = {}
    for name, graph in (("qdq", done.qdq), ("qoperator", done.qlinear)):
        for level in (
            ("all", "none") if name == "qoperator" and exact_sums.EXACT_NATIVELY else ("all",)
        ):
            results[f"{name} {level}"] = Session(graph, threads=1, optimize=level).run(feed)
        run = Executor(graph, "ort").run(feed)
        results[f"{name} integers"] = [run[n] for n in names]
    return results


def find_disagreements(done: QuantizedNetwork) -> list[str]:
    """Which forms differ, in any bit, from the QDQ graph in ONNX Runtime with all optimizations."""
    found = []
    for feed in done.feeds[:2]:
        results = run_all_forms(done, feed)
        truth = results.pop("qdq all")
        for name, outputs in results.items():
            for one, other in zip(truth, outputs, strict=True):
                if one.dtype != other.dtype or one.shape != other.shape:
                    found.append(f"{name}: {one.dtype}{one.shape} {other.dtype}{other.shape}")
                elif one.tobytes() != other.tobytes():
                    found.append(f"{name}: {np.count_nonzero(one != other)} of {one.size}")
    return found


def sqnr_db(reference: Array, output: Array) -> float:
    """Signal over error."""
    reference = np.asarray(reference, np.float64)
    noise = float(((reference - output) ** 2).sum())
    return float(10 * np.log10(float((reference**2).sum()) / noise)) if noise else float("inf")


def worst_sqnr_db(done: QuantizedNetwork) -> float:
    """The worst output's signal over error, in ONNX Runtime with all optimizations."""
    before = Session(Graph.from_proto(done.model), threads=1)
    after = Session(done.qdq, threads=1)
    worst = float("inf")
    for feed in done.feeds:
        for one, other in zip(before.run(feed), after.run(feed), strict=True):
            if one.dtype.kind == "f":
                worst = min(worst, sqnr_db(one, other))
    return worst
