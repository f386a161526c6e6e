"""Oracle: ONNX Runtime's float results, and faults that are put in on purpose."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx
import pytest
from networks import decibels, feeds, network, normal, samples

from ptq import selfcheck
from ptq.api import quantize
from ptq.calibrate import Wanted, observe
from ptq.errors import ModelError
from ptq.graph import Graph
from ptq.pipeline import Ground, Quantization, Recipe, written
from ptq.plan import Plan
from ptq.rewrite.prepare import prepare
from ptq.selfcheck import fit_to_hand_over
from ptq.session import Session
from ptq.solve import tensors_to_observe

CHAIN = """
    a = Conv<kernel_shape = [3, 3]>(x, w)
    b = Conv<kernel_shape = [3, 3]>(a, v)
    y = Conv<kernel_shape = [1, 1]>(b, u)
"""
WEIGHTS = {
    "w": normal(4, 3, 3, 3, seed=1),
    "v": normal(4, 4, 3, 3, seed=2),
    "u": normal(2, 4, 1, 1, seed=3),
}


def ground(model: onnx.ModelProto, these: list[dict[str, np.ndarray]] | None = None) -> Ground:
    source = Graph.from_proto(model)
    prepared = prepare(source)
    wanted = Wanted(tensors_to_observe(prepared.graph))
    seen = observe(prepared.graph, samples(these or feeds(model)), wanted, threads=1)
    return Ground("test", source, prepared, seen)


def handed(model: onnx.ModelProto, these: list[dict[str, np.ndarray]]) -> Quantization:
    return fit_to_hand_over(ground(model, these), Recipe(), samples(these), threads=1)


def test_a_sound_model_keeps_all_its_integers() -> None:
    model = network(CHAIN, **WEIGHTS)
    assert handed(model, feeds(model)).plan.floats == {}


def test_a_node_that_does_not_suit_8_bits_goes_back_to_float_and_says_why() -> None:
    model = network("y = Sigmoid(x)", {"x": (3, 4)})
    x = np.arange(-10, -6, dtype=np.float32) - np.array([[0], [5000], [10000]], np.float32)
    made = handed(model, [{"x": x}] * 2)
    why = made.plan.floats["Sigmoid_y"]
    assert why.startswith("the self-check found: output y is too far from float")
    truth = Session(made.ground.source).run({"x": x})[0]
    assert decibels(truth, Session(made.quantized).run({"x": x})[0]) > 100


@pytest.mark.parametrize("culprit", ["Conv_a", "Conv_b", "Conv_y"])
def test_the_node_at_fault_is_found_and_the_others_stay_integers(
    culprit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(ground: Ground, recipe: Recipe, plan: Plan) -> Quantization:
        coarse = {
            key: dataclasses.replace(params, scale=params.scale * 64)
            if key == (culprit, 1)
            else params
            for key, params in plan.operands.items()
        }
        return written(ground, recipe, dataclasses.replace(plan, operands=coarse))

    monkeypatch.setattr(selfcheck, "written", spoiled)
    model = network(CHAIN, **WEIGHTS)
    assert list(handed(model, feeds(model)).plan.floats) == [culprit]


def test_a_model_whose_floats_differ_each_time_is_not_compared() -> None:
    model = network(
        "r = RandomNormalLike(x)\nc = Conv<kernel_shape = [3, 3]>(r, w)\ny = Relu(c)",
        w=WEIGHTS["w"],
    )
    assert "Conv_c" not in handed(model, feeds(model)).plan.floats


def test_a_preparation_that_changes_the_model_is_refused() -> None:
    model = network(CHAIN, **WEIGHTS)
    made = ground(model)
    other = network(CHAIN, **(WEIGHTS | {"u": -WEIGHTS["u"]}))
    wrong = dataclasses.replace(made, prepared=prepare(Graph.from_proto(other)))
    with pytest.raises(ModelError, match="preparing the model changes what it computes"):
        fit_to_hand_over(wrong, Recipe(), samples(feeds(model)), threads=1)


@pytest.mark.parametrize("low", [-1e4, float(np.finfo(np.float32).min), -np.inf])
def test_a_masked_softmax_stays_float_and_what_is_before_the_mask_does_not(low: float) -> None:
    model = network(
        "s = MatMul(x, w)\nm = Add(s, mask)\ny = Softmax(m)",
        {"x": (3, 8, 16)},
        w=normal(16, 8, seed=4),
        mask=np.triu(np.full((8, 8), low, np.float32), 1),
    )
    data = {"x": normal(4, 3, 8, 16, seed=5)}
    result = quantize(model, data, target="tensorrt", threads=1)
    assert set(result.plan.floats) == {"Add_m", "Softmax_y"}
    assert any(word in result.plan.floats["Softmax_y"] for word in ("masked", "Inf"))
