"""A graph as integer steps; the graph itself and both output forms are the oracles."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, quantized_case

from ptq.core.ops import OPS
from ptq.executor.arithmetics import get_kernels
from ptq.executor.float_islands import FloatIsland
from ptq.executor.program import Program, Step
from ptq.executor.program_reader import read_program


def program(name: str, form: str = "qdq", target: str = "ort") -> Program:
    done = quantized_case(name, target)
    graph = done.qdq if form == "qdq" else done.qlinear
    return read_program(graph, get_kernels(target).__contains__)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("target", ["ort", "litert"])
def test_every_step_comes_after_what_it_reads(name: str, form: str, target: str) -> None:
    read = program(name, form, target)
    known = {*read.inputs, *read.constants}
    for step in read.steps:
        assert {n for n in step.inputs if n is not None} <= known
        assert known.isdisjoint(step.outputs)
        known.update(step.outputs)
    assert known >= set(read.outputs)


@pytest.mark.parametrize("name", CASES)
def test_both_forms_have_the_same_operators_on_the_same_integers(name: str) -> None:
    def integers(form: str) -> set[tuple[str, str]]:
        read = program(name, form)
        return {
            (step.op, name)
            for step in read.steps
            if not isinstance(step, FloatIsland)
            for name in step.outputs
            if step.op not in ("Relu", "Clip", "Requantize")
        }

    assert integers("qdq") == integers("qoperator")


PRODUCTS = {op for op, spec in OPS.items() if spec.float_output_form is not None}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["ort", "litert"])
def test_only_products_return_float(name: str, target: str) -> None:
    done = quantized_case(name, target)
    read = program(name, target=target)
    values = {v.name: v for node in done.qdq.nodes for v in node.outputs}
    ends = {*read.inputs, *read.outputs}
    steps = [step for step in read.steps if isinstance(step, Step)]
    for step in steps:
        for tensor in step.outputs if target == "litert" or step.op not in PRODUCTS else ():
            dtype = values[tensor].dtype
            if tensor not in ends and dtype is not None:
                truth = dtype.numpy().kind == "b"
                assert dtype.is_integer() or truth, f"{tensor} of {step.name}"


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("residual", []),
        ("hard sigmoid", []),
        ("tanh between", [("Tanh",)]),
        ("mean over channels", [("ReduceMean", "Add")]),
        ("if capturing", [("If", "Add")]),
        ("if capturing a float", [("Neg", "If"), ("Add",)]),
        ("split", []),
    ],
)
def test_what_has_no_integers_is_an_island(name: str, ops: list[tuple[str, ...]]) -> None:
    assert [s.ops for s in program(name).steps if isinstance(s, FloatIsland)] == ops


def test_a_float_chain_around_an_integer_step_is_two_islands() -> None:
    from networks import build_network, quantize_network
    from parts import CONV, SAME, WB, V

    model = build_network(
        CONV + f"a = Sin(c)\nd = Conv{SAME}(a, v)\ne = Cos(d)\ny = Sub(a, e)", v=V, **WB
    )
    done = quantize_network(model)
    read = read_program(done.qdq, get_kernels("ort").__contains__)
    found = [s.ops for s in read.steps if isinstance(s, FloatIsland)]
    assert sorted(found) == [("Cos", "Sub"), ("Sin",)]


def test_the_numbers_of_a_qlinear_node_are_those_of_the_quantizers() -> None:
    qdq, qoperator = program("residual"), program("residual", "qoperator")
    assert {
        "x_quantized",
        "w_quantized",
        "y_quantized",
    } <= qdq.params.keys() & qoperator.params.keys()
    for name in qdq.params.keys() & qoperator.params.keys():
        params = qdq.params[name]
        assert qoperator.params[name].scale.tobytes() == params.scale.tobytes()
        assert np.array_equal(qoperator.params[name].zero_point, params.zero_point)
        assert qoperator.params[name].axis == params.axis
