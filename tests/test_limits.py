"""What the integer kernels of a row leave out, with the reason. Oracles: LiteRT's schema, ONNX's attributes."""

from __future__ import annotations

import numpy as np
import pytest
from networks import quantized
from parts import convolved

UP = np.array([1, 1, 2, 2], np.float32)


def fate(nodes: str, op: str, target: str, **constants: object) -> str | None:
    """Why the operator stays float; None where it does not."""
    return quantized(convolved(nodes, **constants), target=target).fates().get(op)


@pytest.mark.parametrize(
    ("attrs", "why"),
    [
        ("", None),
        ('mode="linear"', None),
        ('mode="linear",coordinate_transformation_mode="align_corners"', None),
        ('coordinate_transformation_mode="asymmetric",nearest_mode="floor"', None),
        ('coordinate_transformation_mode="asymmetric",nearest_mode="ceil"', "asymmetric and ceil"),
        ('mode="cubic"', "no row for Resize cubic"),
        ('mode="linear",antialias=1', "smooths"),
    ],
)
def test_litert_resizes_in_its_own_coordinates(attrs: str, why: str | None) -> None:
    from networks import network
    from parts import CONV, WB

    model = network(
        CONV + f"y = Resize<{attrs}>(c, n, s)".replace("<>", ""),
        opset=18,
        n=np.zeros(0, np.float32),
        s=UP,
        **WB,
    )
    found = quantized(model, target="litert").fates().get("Resize")
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
    found = fate(nodes, "Resize", "litert", **constants)
    assert found is None if why is None else why in (found or "")


def test_onnx_runtime_takes_nearest_neighbours_along_any_axis() -> None:
    constants = {"n": np.zeros(0, np.float32), "s": np.float32([1, 2, 1.3, 1])}
    assert fate("y = Resize(c, n, s)", "Resize", "ort", **constants) is None
    assert "Resize linear" in str(
        fate('y = Resize<mode="linear">(c, n, s)', "Resize", "ort", **{**constants, "s": UP})
    )


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_a_constant_that_masks_leaves_where_float(target: str) -> None:
    nodes, mask = "y = Where(m, c, k)", np.array([True, False] * 4).reshape(8, 1, 1)
    for value in (-1e9, -65504.0, 1e4):
        why = fate(nodes, "Where", target, m=mask, k=np.float32(value))
        assert why is not None
        assert f"its constant {np.float32(value):g} masks" in why
    assert fate(nodes, "Where", target, m=mask, k=np.float32(-9)) is None


def test_a_norm_of_another_order_stays_float() -> None:
    nodes = "y = LpNormalization<axis=1,p={}>(c)"
    assert fate(nodes.format(1), "LpNormalization", "litert") == "L2_NORMALIZATION has p = 2, not 1"
    assert fate(nodes.format(2), "LpNormalization", "litert") is None


def test_a_reduction_along_no_axis_stays_float() -> None:
    nodes = "y = ReduceSum<noop_with_empty_axes=1>(c)"
    assert fate(nodes, "ReduceSum", "litert") == "it reduces along no axis"
