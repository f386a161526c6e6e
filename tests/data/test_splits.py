"""Which samples serve what; the data given are the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES
from networks import build_network, gaussian_array
from onnx import TensorProto
from parts import W

from ptq.core.errors import DataError, ModelError
from ptq.data.splits import SampleOptions, has_free_batch, list_input_specs, split_samples
from ptq.model.graph import Graph

GRAPH = Graph.from_proto(build_network("y = Conv(x, w)", {"x": ("n", 3, 8, 8)}, w=W))
ARRAYS = {"x": gaussian_array(60, 3, 8, 8)}


def test_held_out_samples_are_in_neither_part_twice() -> None:
    divided = split_samples(GRAPH, ARRAYS, None, SampleOptions())
    assert divided.calibration is not None
    assert divided.evaluation is not None
    first = {sample.name for sample in divided.calibration}
    second = {sample.name for sample in divided.evaluation}
    assert len(first) + len(second) == 60
    assert not first & second
    again = split_samples(GRAPH, ARRAYS, None, SampleOptions())
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
    assert split_samples(GRAPH, data, eval_data, SampleOptions()).description == described


def test_a_limit_on_samples_spares_those_for_evaluation() -> None:
    divided = split_samples(GRAPH, ARRAYS, ARRAYS, SampleOptions(samples=10))
    assert divided.calibration is not None
    assert divided.evaluation is not None
    assert (len(divided.calibration), len(divided.evaluation)) == (10, 60)


def test_inputs_are_read_with_type_and_shape() -> None:
    model = build_network(
        "y = Gather(t, i)", {"i": ("n", 5)}, types={"i": TensorProto.INT64}, t=gaussian_array(3, 4)
    )
    (spec,) = list_input_specs(Graph.from_proto(model))
    assert (spec.name, spec.dtype, spec.shape) == ("i", np.dtype(np.int64), (None, 5))


def test_an_input_that_is_no_tensor_of_numbers_is_refused() -> None:
    words = {"x": TensorProto.STRING, "y": TensorProto.STRING}
    model = build_network("y = Identity(x)", {"x": (2,)}, types=words)
    with pytest.raises(ModelError, match="input x"):
        list_input_specs(Graph.from_proto(model))


def test_a_model_takes_any_batch_where_its_first_dimension_varies() -> None:
    assert has_free_batch(GRAPH)
    assert not has_free_batch(Graph.from_proto(CASES["relu"]))
    assert not has_free_batch(Graph.from_proto(CASES["clip bounds from an input"]))


@pytest.mark.parametrize(("mode", "takes_any"), [(1, False), (0, True)])
def test_a_model_in_training_mode_takes_single_samples(mode: int, takes_any: bool) -> None:
    # the samples of a batch change the mean that BatchNormalization subtracts
    node = f"y{', m, v' * mode} = BatchNormalization<training_mode = {mode}>(x, one, one, one, one)"
    model = build_network(node, {"x": ("N", 2, 4)}, one=np.ones(2, np.float32))
    assert has_free_batch(Graph.from_proto(model)) is takes_any


SCORES = build_network(
    "f = Flatten(x)\ny = Gemm(f, w)", {"x": ("n", 3, 8, 8)}, w=gaussian_array(192, 4)
)


def test_labels_beyond_the_classes_are_found_before_a_sample_is_read() -> None:
    graph = Graph.from_proto(SCORES)
    good, bad = (ARRAYS | {"labels": np.arange(60) % classes} for classes in (4, 5))
    assert split_samples(graph, good, good, SampleOptions()).evaluation is not None
    for given in ((good, bad), (bad, None)):
        with pytest.raises(
            DataError, match="label 4 is not a class of output y, whose classes are 0 to 3"
        ):
            split_samples(graph, *given, SampleOptions())


def test_labels_that_nothing_is_compared_with_may_be_any() -> None:
    graph, many = Graph.from_proto(SCORES), ARRAYS | {"labels": np.arange(60)}
    assert split_samples(graph, many, None, SampleOptions(), labels=False).evaluation is not None
    assert (
        split_samples(GRAPH, many, None, SampleOptions()).evaluation is not None
    )  # no scores: an image
    only_calibrated = split_samples(graph, many, ARRAYS, SampleOptions())
    assert only_calibrated.calibration is not None


@pytest.mark.parametrize("kind", ["BFLOAT16", "FLOAT8E5M2", "INT4"])
@pytest.mark.parametrize(("value", "inside"), [("input x", ("x", "y")), ("output y", ("y", "x"))])
def test_a_type_that_there_are_no_arrays_of_is_refused(
    kind: str, value: str, inside: tuple[str, str]
) -> None:
    own, other = inside
    types = {own: getattr(TensorProto, kind), other: TensorProto.FLOAT}
    to = types["y"]
    model = build_network(f"y = Cast<to = {to}>(x)", {"x": (2, 3)}, types=types, opset=21)
    with pytest.raises(
        ModelError, match=f"^{value} has .* cannot exchange as an array; make it float32"
    ):
        list_input_specs(Graph.from_proto(model))
