"""What the integer kernels of a row leave out, with the reason. Oracles: LiteRT's schema, ONNX's attributes."""

from __future__ import annotations

import numpy as np
import pytest
from networks import build_network, quantize_network, sqnr_db
from old_runtime import skip_before
from parts import CONV, SEQUENCE, WB, B, W, conv_network

from ptq.core.targets import TARGETS
from ptq.executor.executor import Executor
from ptq.model.graph import Graph
from ptq.model.session.session import Session
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.partition.eligibility import assign_precision

UP = np.array([1, 1, 2, 2], np.float32)


def float_reason(nodes: str, op: str, target: str, **constants: object) -> str | None:
    """Why the operator stays float; None where it does not."""
    return quantize_network(conv_network(nodes, **constants), target=target).float_reasons().get(op)


@pytest.mark.parametrize(
    ("attrs", "why"),
    [
        ("", None),
        ('mode="linear"', None),
        ('mode="linear",coordinate_transformation_mode="align_corners"', None),
        ('coordinate_transformation_mode="asymmetric",nearest_mode="floor"', None),
        ('coordinate_transformation_mode="asymmetric",nearest_mode="ceil"', "asymmetric and ceil"),
        ('mode="cubic"', "operator Resize cubic is not supported"),
        ('mode="linear",antialias=1', "antialias"),
    ],
)
def test_litert_resizes_in_its_own_coordinates(attrs: str, why: str | None) -> None:
    model = build_network(
        CONV + f"y = Resize<{attrs}>(c, n, s)".replace("<>", ""),
        opset=18,
        n=np.zeros(0, np.float32),
        s=UP,
        **WB,
    )
    found = quantize_network(model, target="litert").float_reasons().get("Resize")
    assert found is None if why is None else why in (found or "")


@pytest.mark.parametrize(
    ("scales", "why"),
    [
        ([1, 1, 1.5, 2], None),
        ([1, 2, 1, 1], "height and width only"),
        ([1, 1, 1.3, 1], "by these factors"),
    ],
)
def test_litert_resizes_height_and_width_by_quotients_of_lengths(
    scales: list[float], why: str | None
) -> None:
    nodes = 'y = Resize<mode="linear",coordinate_transformation_mode="asymmetric">(c, n, s)'
    constants = {"n": np.zeros(0, np.float32), "s": np.float32(scales)}
    found = float_reason(nodes, "Resize", "litert", **constants)
    assert found is None if why is None else why in (found or "")


def varying(scales: list[float], mode: str) -> str | None:
    """Why a Resize of an image of any size stays float for LiteRT; None where it does not."""
    model = build_network(
        f'c = Conv<pads=[1,1,1,1]>(x, w, b)\ny = Resize<mode="{mode}">(c, n, s)',
        {"x": ("N", 3, "H", "W")},
        w=W,
        b=B,
        n=np.zeros(0, np.float32),
        s=np.float32(scales),
    )
    graph = prepare(Graph.from_proto(model)).graph
    return assign_precision(graph, TARGETS["litert"]).float_nodes.get("Resize_y")


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_an_image_of_any_size_may_be_doubled(mode: str) -> None:
    assert varying([1, 1, 2, 2], mode) is None


def test_a_factor_that_is_no_quotient_at_every_size_is_not_litert_s() -> None:
    assert "by these factors" in str(varying([1, 1, 1.5, 2], "linear"))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_sequence_is_an_image_of_one_row(mode: str) -> None:
    nodes = f'c = Conv<pads=[1,1]>(x, w, b)\ny = Resize<mode="{mode}">(c, n, s)'
    constants = {"n": np.zeros(0, np.float32), "s": np.float32([1, 1, 2])}
    done = quantize_network(
        build_network(nodes, SEQUENCE, w=W[..., 0], b=B, **constants), target="litert"
    )
    assert done.float_reasons() == {}
    ours = Executor(done.qdq, "litert").run(done.feeds[0])["y"]
    (real,) = Session(Graph.from_proto(done.model)).run(done.feeds[0])
    assert sqnr_db(real, ours) > 25


def test_onnx_runtime_takes_nearest_neighbours_along_any_axis() -> None:
    constants = {"n": np.zeros(0, np.float32), "s": np.float32([1, 2, 1.3, 1])}
    assert float_reason("y = Resize(c, n, s)", "Resize", "ort", **constants) is None
    assert "Resize linear" in str(
        float_reason(
            'y = Resize<mode="linear">(c, n, s)', "Resize", "ort", **{**constants, "s": UP}
        )
    )


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_a_constant_that_masks_leaves_where_float(target: str) -> None:
    nodes, mask = "y = Where(m, c, k)", np.array([True, False] * 4).reshape(8, 1, 1)
    for value in (-1e9, -65504.0, 1e4):
        why = float_reason(nodes, "Where", target, m=mask, k=np.float32(value))
        assert why is not None
        assert f"its constant {np.float32(value):g} is a mask" in why
    assert float_reason(nodes, "Where", target, m=mask, k=np.float32(-9)) is None


def test_a_norm_of_another_order_stays_float() -> None:
    nodes = "y = LpNormalization<axis=1,p={}>(c)"
    assert (
        float_reason(nodes.format(1), "LpNormalization", "litert")
        == "LiteRT's L2_NORMALIZATION has p = 2, not 1"
    )
    assert float_reason(nodes.format(2), "LpNormalization", "litert") is None


def test_a_reduction_along_no_axis_stays_float() -> None:
    skip_before((1, 24), "cannot run a ReduceSum along no axis")
    nodes = "y = ReduceSum<noop_with_empty_axes=1>(c)"
    assert float_reason(nodes, "ReduceSum", "litert") == "reduces along no axis"


def test_a_reduction_along_axes_of_which_there_are_none_stays_float() -> None:
    nodes = f"{CONV}y = ReduceMean<noop_with_empty_axes=1>(c, a)"
    model = build_network(nodes, opset=18, a=np.zeros(0, np.int64), **WB)
    assert (
        quantize_network(model, target="litert").float_reasons()["ReduceMean"]
        == "reduces along no axis"
    )


@pytest.mark.parametrize(
    ("scales", "shape"),
    [([[1, 1, 2, 2]], (1, 8, 16, 16)), ([1, 1, 0.1, 0.1], (1, 8, 0, 0))],
    ids=["a matrix of one row", "to nothing"],
)
@pytest.mark.parametrize("target", ["ort", "litert"])
def test_odd_scales_are_what_onnx_runtime_takes_them_for(
    target: str, scales: list[float], shape: tuple[int, ...]
) -> None:
    if target == "litert" and np.ndim(scales) == 2:
        skip_before((1, 27), "misreads such scales of an int8 Resize")
    nodes = f'{CONV}r = Resize<mode="linear">(c, , s)\ny = Relu(r)'
    made = quantize_network(
        build_network(nodes, opset=18, s=np.float32(scales), **WB), target=target
    )
    assert Session(made.qdq).run(made.feeds[0])[0].shape == shape


@pytest.mark.parametrize(
    ("call", "constants"),
    [
        (
            "LayerNormalization(c, g, k)",
            {"g": np.ones(8, np.float32), "k": np.zeros(0, np.float32)},
        ),
        ("ReduceMean<noop_with_empty_axes=1>(c, k)", {"k": np.zeros(0, np.int64)}),
        ("ReduceSum<noop_with_empty_axes=1>(c, k)", {"k": np.zeros(0, np.int64)}),
    ],
)
@pytest.mark.parametrize("target", ["litert", "tpu-mlir"])
def test_what_stays_float_between_quantizers_the_executor_leaves_to_onnx_runtime(
    target: str, call: str, constants: dict[str, object]
) -> None:
    model = build_network(f"{CONV}r = {call}\ny = Relu(r)", opset=18, **WB, **constants)
    made = quantize_network(model, target=target)
    found = Executor(made.qdq, TARGETS[target].arithmetic).run(made.feeds[0])["y"]
    expected = Session(made.qdq, optimize="none").run(made.feeds[0])[0]
    three_steps = 3 / 127 * np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=three_steps)


@pytest.mark.parametrize("target", ["ort", "qnn"])
@pytest.mark.parametrize(("side", "is_float"), [(3, True), (2, False)])
def test_an_average_of_windows_behind_the_image_stays_float(
    side: int, is_float: bool, target: str
) -> None:
    attrs = f"kernel_shape=[{side},{side}],strides=[2,2],ceil_mode=1,count_include_pad=1"
    why = float_reason(f"y = AveragePool<{attrs}>(c)", "AveragePool", target)
    counts = "integer kernels count what ceil_mode adds behind the padding"
    assert why == (counts if is_float else None)
