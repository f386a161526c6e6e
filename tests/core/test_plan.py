"""The plan as a document; what was written is the oracle of what is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cases import CASES, quantized_case
from hypothesis import given
from hypothesis import strategies as st

from ptq.core.errors import PlanError
from ptq.core.plan import Plan, Why
from ptq.core.types import UINT8, QuantParams
from ptq.rewrite.emit.to_qdq import to_qdq


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["ort", "litert"])
def test_a_plan_reads_back_as_it_was_written(name: str, target: str) -> None:
    plan = quantized_case(name, target).plan
    again = Plan.from_json(plan.to_json())
    for field in vars(plan):
        assert getattr(again, field) == getattr(plan, field)
    assert again.to_json() == plan.to_json()


@given(st.floats(2.0**-63, 2.0**100, width=32))
def test_every_float32_scale_survives_the_decimal_form(scale: float) -> None:
    params = QuantParams.per_tensor(scale, 3, UINT8)
    plan = Plan("ort", "digest", tensors={"x": params}, why={"x": Why("observed", "minmax")})
    read = Plan.from_json(plan.to_json()).tensors["x"].scale
    assert read.dtype == np.float32
    assert read.tobytes() == params.scale.tobytes()


def test_a_plan_knows_one_other_format_of_weights() -> None:
    document = json.loads(Plan("ort", "digest", weights="u8").to_json())
    assert Plan.from_json(json.dumps(document)).weights == "u8"
    with pytest.raises(PlanError, match="weights is 'u4', not 'u8'"):
        Plan.from_json(json.dumps(document | {"weights": "u4"}))


FORMAT_1 = """{
 "format": 1,
 "target": "ort",
 "graph": "9f2c",
 "tensors": {
  "c": {
   "scale": 0.023529412, "zero_point": 3, "type": "uint8", "range": [0, 255], "axis": null,
   "why": ["observed", "mse"]
  }
 },
 "operands": {},
 "edges": {},
 "folded": {"Relu_r": "Conv_c"},
 "clamps": {},
 "floats": {"Cos_y": "skipped by the user"},
 "factors": {"c": [1.0, 2.378414230005442]},
 "shores": {"c": ["Conv_c", "Conv_d"]},
 "rounding": null
}
"""


def test_a_plan_of_format_1_is_read_and_written_as_format_2() -> None:
    plan = Plan.from_json(FORMAT_1)
    assert plan.channel_factors == {"c": (1.0, 2.378414230005442)}
    assert plan.boundaries == {"c": ("Conv_c", "Conv_d")}
    assert plan.folded == {"Relu_r": "Conv_c"}
    old, new = json.loads(FORMAT_1), json.loads(plan.to_json())
    assert new.pop("format") == 2
    assert new.pop("channel_factors") == old.pop("factors")
    assert new.pop("boundaries") == old.pop("shores")
    assert {**new, "format": 1} == old
    assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()


def edited(change: Any) -> str:
    """The document of a plan after an edit by hand."""
    document = json.loads(quantized_case("relu").plan.to_json())
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("tensors"), "tensors"),
        (lambda d: d.pop("floats"), "floats"),
        (lambda d: d.update(format=99), "format 99, and formats 1 and 2"),
        (lambda d: d["tensors"]["x"].pop("scale"), "scale"),
        (lambda d: d["tensors"]["x"].update(scale=-1.0), "x"),
        (lambda d: d["tensors"]["x"].update(scale="wide"), "wide"),
        (lambda d: d["tensors"]["x"].update(zero_point=300), "outside uint8"),
        (lambda d: d["tensors"]["x"].update(type="float32"), "not an integer type"),
        (lambda d: d["tensors"]["x"].update(type="fancy"), "fancy"),
        (lambda d: d["tensors"]["x"].update(range=[0]), "tensors x range is .0., not a list of 2"),
        (lambda d: d["tensors"].update(x=[]), "tensors x is .., not an object"),
        (
            lambda d: d.update(operands={"Conv_c": d["operands"]["Conv_c[1]"]}),
            "key 'Conv_c', not node",
        ),
        (lambda d: d.update(clamps={"Relu_y": {"producer": "Conv_c"}}), "lo"),
        (lambda d: d.update(tensors=[]), "tensors is .., not an object"),
        (lambda d: d.update(floats=[1]), "floats is .1., not an object"),
        (lambda d: d.update(flots={}), "unknown key 'flots' .did you mean 'floats'"),
        (lambda d: d["tensors"]["x"].update(scael=1), "tensors x has the unknown key 'scael'"),
        (lambda d: d["tensors"]["x"].update(zero_point=126.9), "126.9, not a whole number"),
        (lambda d: d["tensors"]["x"].update(zero_point=True), "true, not a whole number"),
        (lambda d: d["tensors"]["x"].update(range=[0.5, 254.9]), "0.5, not a whole number"),
        (lambda d: d["tensors"]["x"].update(range=[-1, 300]), "two ascending integers of uint8"),
        (lambda d: d["tensors"]["x"].update(range=[255, 0]), "two ascending integers of uint8"),
        (lambda d: d["tensors"]["x"].update(scale=10**400), "tensors x scale is 10.*not a finite"),
        (lambda d: d["tensors"]["x"].update(scale=1e300), "scale inf is not positive and finite"),
        (lambda d: d["tensors"]["x"].update(why=[]), "tensors x why is .., not a list of 2"),
        (lambda d: d["operands"]["Conv_c[1]"].update(axis=-1), "axis is -1; count from 0"),
        (lambda d: d.update(rounding={"Conv_c": 3}), "rounding Conv_c is 3, not a text"),
        (lambda d: d.update(clamps={"r": {"producer": "c", "lo": 9, "hi": 1}}), "lo 9 above hi 1"),
    ],
)
def test_a_damaged_plan_is_refused_in_one_line(change: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message) as caught:
        Plan.from_json(edited(change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"model": "m", "target": "ort", "evaluation": null}',
            "is a report, not a plan: it has no",
        ),
        ('{"a": 1}', "is JSON, but not a plan: it has no 'format'; give a plan"),
        ("[]", "is JSON, but not a plan"),
    ],
)
def test_a_report_and_other_json_are_no_plan(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Plan.from_json(text)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", '{"format": 1}', '{"format": 2}', "\x00"]
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(PlanError):
        Plan.from_json(text)


def test_a_plan_of_another_graph_is_refused() -> None:
    with pytest.raises(PlanError, match="another model"):
        quantized_case("relu").plan.check(quantized_case("relu6").plan.graph)
    quantized_case("relu").plan.check(quantized_case("relu").prepared.digest())


def test_a_plan_that_names_what_the_graph_lacks_is_refused() -> None:
    done = quantized_case("relu")
    params = done.plan.tensors["x"]
    weight = done.plan.operands["Conv_c", 1]
    fewer = replace(weight, scale=weight.scale[:3], zero_point=weight.zero_point[:3])
    for change, message in (
        ({"tensors": {**done.plan.tensors, "z": params}}, "z, which is not a tensor"),
        ({"tensors": {**done.plan.tensors, "x": weight}}, "x per channel"),
        ({"floats": {"Conv_z": "by wish"}}, "node Conv_z"),
        ({"operands": {("Conv_z", 1): weight}}, "node Conv_z"),
        ({"operands": {("Conv_c", 7): weight}}, r"Conv_c\[7\], which is not a constant"),
        ({"operands": {("Conv_c", 1): fewer}}, "3 scales for the 8 channels"),
        (
            {"operands": {("Conv_c", 1): replace(weight, axis=1)}},
            "axis 1 .*whose channel axis is 0",
        ),
        (
            {"operands": {("Conv_c", 1): replace(weight, axis=9)}},
            "axis 9 .*whose channel axis is 0",
        ),
        ({"rounding": {"zz": "nearest"}}, "node zz"),
    ):
        with pytest.raises(PlanError, match=message):
            to_qdq(done.prepared, replace(done.plan, **change))  # type: ignore[arg-type]


def test_a_document_in_place_of_a_path_is_not_repeated() -> None:
    text = quantized_case("relu").plan.to_json()
    with pytest.raises(PlanError, match=r"is JSON text; read it with Plan.from_json$"):
        Plan.load(text)
