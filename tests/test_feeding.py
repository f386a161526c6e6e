"""Which samples serve what; the data given are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES
from networks import network, normal
from onnx import TensorProto
from parts import W

from ptq.errors import ModelError
from ptq.feeding import Choice, input_specs, parts, takes_any_batch, told
from ptq.graph import Graph

GRAPH = Graph.from_proto(network("y = Conv(x, w)", {"x": ("n", 3, 8, 8)}, w=W))
ARRAYS = {"x": normal(60, 3, 8, 8)}


def test_held_out_samples_are_in_neither_part_twice() -> None:
    divided = parts(GRAPH, ARRAYS, None, Choice())
    assert divided.calibration is not None
    assert divided.evaluation is not None
    first = {sample.name for sample in divided.calibration}
    second = {sample.name for sample in divided.evaluation}
    assert len(first) + len(second) == 60
    assert not first & second
    again = parts(GRAPH, ARRAYS, None, Choice())
    assert again.evaluation is not None
    assert {sample.name for sample in again.evaluation} == second


@pytest.mark.parametrize(
    ("data", "eval_data", "described"),
    [
        (ARRAYS, None, "on samples held out from calibration"),
        ({"x": ARRAYS["x"][:20]}, None, "on calibration samples"),
        (ARRAYS, ARRAYS, "on evaluation samples"),
        (None, ARRAYS, "on evaluation samples"),
        (None, None, ""),
    ],
)
def test_what_accuracy_is_measured_on_is_said(
    data: dict[str, np.ndarray] | None, eval_data: dict[str, np.ndarray] | None, described: str
) -> None:
    assert parts(GRAPH, data, eval_data, Choice()).described == described


def test_a_limit_on_samples_spares_those_for_evaluation() -> None:
    divided = parts(GRAPH, ARRAYS, ARRAYS, Choice(samples=10))
    assert divided.calibration is not None
    assert divided.evaluation is not None
    assert (len(divided.calibration), len(divided.evaluation)) == (10, 60)


def test_inputs_are_read_with_type_and_shape() -> None:
    model = network(
        "y = Gather(t, i)", {"i": ("n", 5)}, types={"i": TensorProto.INT64}, t=normal(3, 4)
    )
    (spec,) = input_specs(Graph.from_proto(model))
    assert (spec.name, spec.dtype, spec.shape) == ("i", np.dtype(np.int64), (None, 5))


def test_an_input_that_is_no_tensor_of_numbers_is_refused() -> None:
    words = {"x": TensorProto.STRING, "y": TensorProto.STRING}
    model = network("y = Identity(x)", {"x": (2,)}, types=words)
    with pytest.raises(ModelError, match="input x"):
        input_specs(Graph.from_proto(model))


def test_a_model_takes_any_batch_where_its_first_dimension_varies() -> None:
    assert takes_any_batch(GRAPH)
    assert not takes_any_batch(Graph.from_proto(CASES["relu"]))
    assert not takes_any_batch(Graph.from_proto(CASES["clip bounds from an input"]))


def test_progress_hears_of_every_sample() -> None:
    opened = Choice(samples=5).open(ARRAYS, GRAPH)
    heard: list[str] = []
    assert len(list(told(opened, "s", lambda stage, total: lambda: heard.append(stage)))) == 5
    assert heard == ["s"] * 5
    assert told(opened, "s", None) is opened
