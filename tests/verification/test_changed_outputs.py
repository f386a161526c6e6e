"""Causes of outputs that change when integers are read; ONNX Runtime's own outputs are the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foreign_models import INPUT_QDQ, OUTPUT_QDQ, foreign_graph
from networks import gaussian_array, to_samples
from onnx import TensorProto

from ptq.core.run_options import RunOptions
from ptq.executor.executor import Executor
from ptq.executor.float_islands import FloatIsland
from ptq.verification.changed_outputs import ChangeCauses, find_change_causes
from ptq.verification.verify import verify_graph
from ptq.verification.wording import explain_differences


@pytest.mark.parametrize("scale", [0.07, 0.05])
def test_a_second_pair_of_quantizers_is_named_where_onnx_runtime_merges_it(scale: float) -> None:
    text = (
        INPUT_QDQ
        + "yq = QuantizeLinear(xd, y_scale, y_zero)\ny = DequantizeLinear(yq, y_scale, y_zero)"
    )
    graph = foreign_graph(text, y_scale=np.float32(scale), x_scale=np.float32(0.05))
    samples = to_samples([{"x": gaussian_array(1, 3, 8, 8, scale=3)}])
    found = verify_graph(graph, samples, run=RunOptions(threads=1))
    assert found.first is None
    assert found.changed_outputs
    assert found.causes.merged == ("yq",)
    assert found.passed
    assert "ONNX Runtime merges the quantizers of yq" in " ".join(explain_differences(found))


@pytest.mark.parametrize(
    "pair",
    [
        "yq = QuantizeLinear(xd, y_scale, y_zero)\ny = DequantizeLinear(yq, y_scale, y_zero)\n"
        "v = DequantizeLinear(yq, y_scale, y_zero)",
        "i = Identity(xd)\nyq = QuantizeLinear(i, y_scale, y_zero)\ny = DequantizeLinear(yq, y_scale, y_zero)",
        "yq = com.microsoft.QuantizeLinear(xd, y_scale, y_zero)\n"
        "y = com.microsoft.DequantizeLinear(yq, y_scale, y_zero)",
    ],
    ids=["two readers", "copy", "own domain"],
)
def test_merged_pairs_are_found_in_every_form_that_onnx_runtime_merges(pair: str) -> None:
    graph = foreign_graph(INPUT_QDQ + pair)
    samples = to_samples([{"x": gaussian_array(1, 3, 8, 8, scale=3)}])
    found = verify_graph(graph, samples, run=RunOptions(threads=1))
    assert found.changed_outputs
    assert found.causes == ChangeCauses(("yq",))
    assert found.passed


UNREAD_CONV = """
wd = DequantizeLinear(w, w_scale, w_zero)
c = Conv(xd, wd)
cq = QuantizeLinear(c, y_scale, y_zero)
cd = DequantizeLinear(cq, y_scale, y_zero)
unread = Conv(xd, wd)
r = Reshape(cd, k)
"""


@pytest.mark.parametrize(("attribute", "merged"), [("<axis = 1>", False), ("", True)])
def test_a_pair_beside_does_not_excuse_an_output_that_unread_nodes_change(
    attribute: str, merged: bool
) -> None:
    """The products lie at ties of the output's scale, which float sums miss."""
    beside = f"""
aq = QuantizeLinear {attribute} (x, a_scale, a_zero)
ad = DequantizeLinear {attribute} (aq, a_scale, a_zero)
vq = QuantizeLinear(ad, v_scale, v_zero)
v = DequantizeLinear(vq, v_scale, v_zero)
"""
    count = () if merged else (3,)
    graph = foreign_graph(
        INPUT_QDQ + UNREAD_CONV + OUTPUT_QDQ + beside,
        x_scale=np.float32(0.05),
        x_zero=np.int8(3),
        w=np.random.default_rng(0).integers(-3, 4, (4, 3, 3, 3)).astype(np.int8),
        w_scale=np.float32(0.02),
        y_scale=np.float32(0.006),
        y_zero=np.int8(1),
        k=np.array([1, -1]),
        a_scale=np.full(count, 0.05, np.float32),
        a_zero=np.zeros(count, np.int8),
        v_scale=np.float32(0.07),
        v_zero=np.int8(1),
        outputs={"y": TensorProto.FLOAT, "v": TensorProto.FLOAT},
    )
    samples = to_samples([{"x": gaussian_array(1, 3, 8, 8, seed=s)} for s in range(4)])
    found = verify_graph(graph, samples, run=RunOptions(threads=1))
    assert found.first is None
    assert found.causes.merged == (("vq",) if merged else ())
    assert found.causes.unexplained == ("y",)
    assert not found.passed
    assert "nodes that nobody reads" in " ".join(explain_differences(found))
    graph.remove_unused()
    assert verify_graph(graph, samples, run=RunOptions(threads=1)).passed


def test_a_changed_output_without_a_cause_has_an_explanation() -> None:
    graph = foreign_graph(
        INPUT_QDQ + "s = Shape(x)\nk = Gather(s, i)\nr = Reshape(xd, k)" + OUTPUT_QDQ,
        i=np.array([0, 1, 2, 3]),
    )
    program = Executor(graph).program
    assert any(isinstance(step, FloatIsland) for step in program.steps)  # it computes a shape
    causes = find_change_causes(graph, program, {"y"})
    assert causes == ChangeCauses(unexplained=("y",))
    samples = to_samples([{"x": gaussian_array(1, 3, 8, 8)}])
    found = verify_graph(graph, samples, run=RunOptions(threads=1))
    changed = replace(found, intact=False, causes=causes)
    assert not changed.passed
    assert "reading the integers changes y" in " ".join(explain_differences(changed))
