"""The integer executor in a report: it computes in float what the plan leaves float, as the target does."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, gaussian_array

import ptq

BODY = "c = Conv(x, w)\na = Relu(c)\n{}\nd = Conv(b, v)\ny = Flatten(d)"
WEIGHTS = {
    "w": gaussian_array(8, 3, 3, 3, scale=0.2),
    "v": gaussian_array(8, 8, 3, 3, scale=0.2, seed=1),
    "p": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
    "below": np.float32(-3),
    "powers": np.float32([[[1]], [[2]]] * 4),
}


def _evaluate(pad: str, **options: str) -> dict[str, float]:
    model = build_network(BODY.format(pad), {"x": ("n", 3, 8, 8)}, **WEIGHTS)
    made = ptq.quantize(
        model, {"x": gaussian_array(40, 3, 8, 8, seed=2)}, effort="fast", force=True, threads=1, **options
    )  # fmt: skip
    assert made.report.evaluation is not None
    forms = made.report.evaluation.forms
    return {name: forms[name].outputs["y"].sqnr_db for name in ("int8", "integers")}


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_a_pad_below_zero_is_that_of_onnx_runtime(form: str) -> None:
    found = _evaluate("b = Pad(a, p, below)", form=form)
    assert found["integers"] == pytest.approx(found["int8"])
    assert found["int8"] > 30


@pytest.mark.parametrize("target", ["litert", "litert-xnnpack", "gemmlowp"])
@pytest.mark.parametrize(
    "between", ['b = Pad<mode = "edge">(a, p)', "b = Pad(a, p, below)", "b = Pow(a, powers)"]
)
def test_what_the_plan_leaves_float_needs_no_integer_kernel(between: str, target: str) -> None:
    found = _evaluate(between, target=target)
    assert found["integers"] == pytest.approx(found["int8"], abs=1.5)
    assert found["int8"] > 25
