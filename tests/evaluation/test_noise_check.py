"""Models that draw random numbers are named; a model without noise is the oracle."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.evaluation.checks.noise_check import check_noise
from ptq.model.graph import Graph

WEIGHTS = {"w": gaussian_array(8, 4), "b": gaussian_array(4)}
NOISY = build_network(
    "h = Gemm(x, w, b)\n[noise] n = RandomNormalLike(h)\ny = Add(h, n)", {"x": ("n", 8)}, **WEIGHTS
)
QUIET = build_network("y = Gemm(x, w, b)", {"x": ("n", 8)}, **WEIGHTS)
DATA = gaussian_array(40, 8, seed=1)


def _names_noise(suspects: tuple[ptq.Diagnosis, ...]) -> bool:
    found = [s for s in suspects if s.serious and "random numbers" in s.what]
    assert len(found) <= 1
    return bool(found) and found[0].where == "node noise (RandomNormalLike)"


@pytest.mark.parametrize("budget", [0.0, 1e9])
def test_a_budget_of_a_model_with_noise_is_undecided(budget: float) -> None:
    report = ptq.quantize(NOISY, DATA, max_drop=budget, threads=1).report
    assert _names_noise(report.suspects)
    assert report.budget is not None
    assert report.budget.verdict == "undecided"
    assert report.search is None


def test_evaluate_and_compare_name_noise() -> None:
    assert _names_noise(ptq.evaluate(NOISY, DATA, threads=1).suspects)
    assert _names_noise(ptq.evaluate(NOISY, DATA, against=NOISY, threads=1).suspects)
    evaluated = ptq.evaluate(NOISY, DATA, against=QUIET, max_drop=1e9, threads=1)
    for found in (evaluated, ptq.compare(QUIET, NOISY, DATA, max_drop=1e9, threads=1)):
        assert _names_noise(found.suspects)
        assert found.budget is not None
        assert found.budget.verdict == "undecided"


def test_a_model_without_noise_is_not_named() -> None:
    report = ptq.quantize(QUIET, DATA, max_drop=1e9, threads=1).report
    assert not _names_noise(report.suspects)
    assert report.budget is not None
    assert report.budget.verdict == "held"
    evaluated = ptq.evaluate(QUIET, DATA, against=QUIET, max_drop=1e9, threads=1)
    assert evaluated.budget is not None
    evaluated.budget.require_held()
    assert ptq.evaluate(QUIET, DATA, against=QUIET, threads=1).budget is None


def test_a_drop_needs_the_float_model() -> None:
    with pytest.raises(ptq.UsageError, match="against the float model; give it with `against`"):
        ptq.evaluate(QUIET, DATA, max_drop=1, threads=1)


@pytest.mark.parametrize("node", ["r = RandomUniform<shape = [4]>()", "r = Bernoulli(x)"])
def test_random_nodes_in_sub_graphs_are_found(node: str) -> None:
    branch = f"g () => (float[4] r) {{ {node} }}"
    other = "e () => (float[4] s) { s = Identity(x) }"
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        network (bool c, float[4] x) => (float[4] y) {{
            y = If (c) <then_branch = {branch}, else_branch = {other}>
        }}"""
    )
    assert len(check_noise(Graph.from_proto(model))) == 1


@pytest.mark.parametrize(
    ("node", "noisy"),
    [
        ("RandomNormalLike(x)", True),
        ("RandomNormalLike<scale = 0.0>(x)", False),
        ("RandomUniformLike(x)", True),
        ("RandomUniformLike<low = 2.0, high = 2.0>(x)", False),
    ],
)
def test_numbers_that_do_not_vary_are_no_noise(node: str, noisy: bool) -> None:
    model = build_network(f"n = {node}\ny = Add(x, n)", {"x": (4,)})
    assert bool(check_noise(Graph.from_proto(model))) is noisy


def test_noise_that_reaches_no_output_is_not_named() -> None:
    model = build_network("n = RandomNormalLike(x)\nm = Neg(n)\ny = Relu(x)", {"x": (4,)})
    assert check_noise(Graph.from_proto(model)) == ()


@pytest.mark.parametrize(
    "nodes",
    [
        "n = RandomNormalLike(h)\ns = Shape(n)\ny = Reshape(h, s)",
        "flag = Not(yes)\ny = Dropout(h, , flag)",
    ],
)
def test_noise_that_preparation_removes_leaves_a_budget_decided(nodes: str) -> None:
    constants = {**WEIGHTS, "yes": np.array(True)} if "yes" in nodes else WEIGHTS
    model = build_network(f"h = Gemm(x, w, b)\n{nodes}", {"x": ("n", 8)}, **constants)
    report = ptq.quantize(model, DATA, max_drop=1e9, effort="fast", threads=1).report
    assert not [s for s in report.suspects if "random numbers" in s.what]
    assert report.budget is not None
    assert report.budget.verdict == "held"
    assert report.search is not None


@pytest.mark.parametrize(
    ("inputs", "noisy"),
    [
        ("x", False),
        ("x, , no", False),
        ("x, , yes", True),
        ("x, , c", True),
        ("x, zero, yes", False),
        ("x, half, yes", True),
    ],
)
def test_dropout_is_noise_in_training_mode_with_a_ratio_only(inputs: str, noisy: bool) -> None:
    model = build_network(
        f"y = Dropout({inputs})",
        {"x": (4,), "c": ()},
        types={"c": onnx.TensorProto.BOOL},
        zero=np.float32(0),
        half=np.float32(0.5),
        no=np.array(False),
        yes=np.array(True),
    )
    found = check_noise(Graph.from_proto(model))
    assert bool(found) is noisy
    assert all("PyTorch: eval" in diagnosis.advice for diagnosis in found)
