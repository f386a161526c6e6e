"""Plans that were edited: what does not fit the graph is refused with its place; solved plans are the oracle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import CASES, quantized_case
from networks import QuantizedNetwork, build_network, gaussian_array, quantize_network
from parts import SAME

from ptq.core.errors import PlanError
from ptq.core.plan import Clamp, Plan
from ptq.rewrite.emit.check_plan import check_completeness, check_plan

NODES = f"c = Conv{SAME}(x, w)\nr = Relu(c)\nd = Conv{SAME}(r, v)\ny = Add(d, r)"


@pytest.fixture(scope="module")
def done() -> QuantizedNetwork:
    weights = {"w": gaussian_array(8, 3, 3, 3), "v": gaussian_array(8, 8, 3, 3, seed=1)}
    return quantize_network(build_network(NODES, **weights))


@pytest.mark.parametrize("name", CASES)
def test_a_solved_plan_fits(name: str) -> None:
    case = quantized_case(name)
    check_plan(case.prepared, case.plan)
    check_completeness(case.prepared, case.plan)


@pytest.mark.parametrize("target", ["tensorrt", "openvino", "litert", "qnn-a16"])
def test_a_plan_with_float_borders_fits(target: str) -> None:
    case = quantize_network(CASES["residual"], target=target)
    check_plan(case.prepared, case.plan)
    check_completeness(case.prepared, case.plan)


@pytest.mark.parametrize(
    ("folded", "message"),
    [
        ({"Add_y": "Conv_d"}, r"folds or clamps node Add_y \(Add\), which is no Relu and no Clip"),
        ({"Relu_r": "Conv_d"}, "gives node Relu_r to Conv_d, but does not find it alone behind"),
        ({"Relu_r": "gone"}, "gives node Relu_r to gone, but does not find it alone behind"),
    ],
)
def test_a_node_that_another_one_cannot_do_is_not_removed(
    done: QuantizedNetwork, folded: dict[str, str], message: str
) -> None:
    assert done.plan.folded == {"Relu_r": "Conv_c"}
    with pytest.raises(PlanError, match=message):
        check_plan(done.prepared, replace(done.plan, folded=folded))
    clamps = {name: Clamp(producer, 0, 9) for name, producer in folded.items()}
    with pytest.raises(PlanError, match=message):
        check_plan(done.prepared, replace(done.plan, folded={}, clamps=clamps))


def test_a_node_is_not_float_and_removed(done: QuantizedNetwork) -> None:
    with pytest.raises(PlanError, match="node Relu_r in floats, and folds or clamps it too"):
        check_plan(done.prepared, replace(done.plan, floats={"Relu_r": "kept in float by you"}))


def test_a_node_needs_scales_or_a_reason_to_stay_float(done: QuantizedNetwork) -> None:
    def without(name: str) -> Plan:
        kept = {key: params for key, params in done.plan.tensors.items() if key != name}
        return replace(done.plan, tensors=kept)

    with pytest.raises(PlanError, match=r"node Conv_d \(Conv\) out of floats, .* its input r; add"):
        check_completeness(done.prepared, without("r"))
    with_reason = replace(without("r"), floats={"Conv_d": "kept in float by you"})
    check_completeness(done.prepared, with_reason)
    floats = quantize_network(done.model, skip=["Conv_c"])
    with pytest.raises(PlanError, match=r"node Conv_c \(Conv\) out of floats, .* its input x; add"):
        check_completeness(floats.prepared, replace(floats.plan, floats={}))
