"""LiteRT's 8-bit quantization specification, statement by statement; its table has a file of its own.

Oracles: Python's integers and float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from factored_product import compute_factored_product
from hypothesis import given
from hypothesis import strategies as st
from networks import build_network, gaussian_array, quantize_network
from sites import int8_params, run_node

from ptq.core.errors import UnsupportedError
from ptq.core.plan import Plan
from ptq.core.targets import TARGETS
from ptq.core.types import INT8, INT32, QuantParams, Range
from ptq.executor.arithmetics import gemmlowp, litert
from ptq.executor.arithmetics.node_site import Site
from ptq.observers.qparams import compute_asymmetric_qparams

TARGET = TARGETS["litert"]


def test_activations_are_int8_from_minus_128_to_127_per_tensor() -> None:
    assert TARGET.activation == INT8
    assert (INT8.lo, INT8.hi) == (-128, 127)
    plan = quantize_network(build_network("y = Add(x, x)"), target="litert").plan
    assert all(p.axis is None and p.qtype == INT8 for p in plan.tensors.values())


def operand(plan: Plan, position: int) -> QuantParams:
    """The parameters of the one weight (1) or bias (2) of the plan."""
    (params,) = (p for (_, at), p in plan.operands.items() if at == position)
    return params


def test_weights_are_int8_from_minus_127_to_127_with_zero_point_0() -> None:
    assert (TARGET.weight.lo, TARGET.weight.hi, TARGET.weight.signed) == (-127, 127, True)
    plan = quantize_network(
        build_network("y = Conv(x, w)", w=gaussian_array(4, 3, 3, 3)), target="litert"
    ).plan
    weight = operand(plan, 1)
    assert not weight.zero_point.any()
    assert weight.quantize(gaussian_array(4, 3, 3, 3)).min() >= -127


@pytest.mark.parametrize(
    ("nodes", "shape", "axis"),
    [
        ("y = Conv(x, w)", (4, 3, 3, 3), 0),
        ("y = Conv<group = 3>(x, w)", (3, 1, 3, 3), 0),  # dim 3 in LiteRT's 1HWC layout
        ("f = Flatten(x)\ny = Gemm<transB = 1>(f, w)", (5, 192), 0),
    ],
)
def test_a_weight_has_one_scale_an_output_channel(nodes: str, shape: Any, axis: int) -> None:
    plan = quantize_network(build_network(nodes, w=gaussian_array(*shape)), target="litert").plan
    weight = operand(plan, 1)
    assert (weight.axis, weight.scale.shape) == (axis, (shape[axis],))


def test_a_bias_has_the_scale_input_times_weight_and_zero_point_0() -> None:
    model = build_network(
        "y = Conv(x, w, b)", w=gaussian_array(4, 3, 3, 3), b=gaussian_array(4, seed=1)
    )
    plan = quantize_network(model, target="litert").plan
    weight, bias = operand(plan, 1), operand(plan, 2)
    np.testing.assert_array_equal(bias.scale, plan.tensors["x"].scale * weight.scale)
    assert bias.qtype == INT32
    assert not bias.zero_point.any()


def test_erratum_the_bias_of_a_fully_connected_layer_has_one_scale_a_channel_too() -> None:
    """The table calls it per-tensor, beside a weight per axis and input0_scale · input1_scale[...].

    Both cannot be: with input1_scale[0] ≠ input1_scale[1] no single number equals both products.
    """
    model = build_network(
        "f = Flatten(x)\ny = Gemm<transB = 1>(f, w, b)",
        w=gaussian_array(5, 192),
        b=gaussian_array(5),
    )
    plan = quantize_network(model, target="litert").plan
    weight, bias = operand(plan, 1), operand(plan, 2)
    assert len(set(weight.scale.tolist())) == 5
    assert bias.scale.shape == weight.scale.shape


@given(st.floats(2.0**-20, 8, width=32), st.integers(-128, 127), st.integers(-128, 127))
def test_the_real_value_is_the_int8_value_minus_the_zero_point_times_the_scale(
    scale: float, zero: int, q: int
) -> None:
    params = QuantParams.per_tensor(scale, zero, INT8)
    real = params.dequantize(np.array([q], np.int8))[0]
    assert real == np.float32(np.float64(scale) * (q - zero))


@given(st.floats(-50, 0), st.floats(0, 50))
def test_the_zero_point_of_an_activation_lies_in_minus_128_to_127(lo: float, hi: float) -> None:
    assert -128 <= int(compute_asymmetric_qparams(Range(lo, hi), INT8).zero_point) <= 127


def test_asymmetry_buys_up_to_one_bit() -> None:
    """A tensor of one sign has twice as many steps with a zero point at the end as with one in the middle."""
    free = compute_asymmetric_qparams(Range(0.0, 6.0), INT8)
    assert int(free.zero_point) == -128
    assert float(free.scale) * 255 == pytest.approx(6.0)
    assert float(free.scale) == pytest.approx(6.0 / 127 / 2, rel=1 / 127)


def test_quantized_dimension_1_gives_every_slice_of_t_its_scale_and_zero_point() -> None:
    """dims [4, 3, 2, 1], scale [1, 2, 3], zero_point [1, 2, 3]: t[:, c] has scale[c] and zero_point[c]."""
    params = QuantParams(np.array([1.0, 2.0, 3.0]), np.array([1, 2, 3]), INT8, axis=1)
    t = np.arange(24, dtype=np.int8).reshape(4, 3, 2, 1)
    real = params.dequantize(t)
    for c, (scale, zero_point) in enumerate([(1.0, 1), (2.0, 2), (3.0, 3)]):
        alone = QuantParams.per_tensor(scale, zero_point, INT8)
        np.testing.assert_array_equal(real[:, c, :, :], alone.dequantize(t[:, c, :, :]))
    np.testing.assert_array_equal(params.quantize(real), t)


def test_the_quantized_dimension_costs_nothing_where_it_is_one_dot_product_each() -> None:
    """Per-channel scales only enter the multiplier: the accumulators are those of one scale."""
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (1, 4, 4, 3)).astype(np.int8)
    w = rng.integers(-127, 128, (2, 3, 3, 3)).astype(np.int8)
    accumulators = []
    for scale, axis in ((np.array([0.5, 0.25]), 0), (0.5, None)):
        y = int8_params(200.0)
        out = run_node(
            "litert",
            "Conv",
            [(x, int8_params(0.5)), (w, int8_params(scale, 0, axis))],
            y,
            constants=[1],
        )
        accumulators.append(out)
    np.testing.assert_array_equal(accumulators[0][..., 0], accumulators[1][..., 0])
    assert (accumulators[0][..., 1] != accumulators[1][..., 1]).any()


@given(st.integers(0, 2**31))
def test_the_product_of_a_row_and_a_column_is_the_sum_of_four_terms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    qa, qb = rng.integers(-128, 128, n), rng.integers(-128, 128, n)
    za, zb = (int(z) for z in rng.integers(-128, 128, 2))
    direct = int(((qa - za) * (qb - zb)).sum())
    assert direct == (qa * qb).sum() - (qa * zb).sum() - (qb * za).sum() + n * za * zb
    assert direct == compute_factored_product(qa[None], za, qb[:, None], zb).item()


def test_erratum_the_sums_run_over_n_terms() -> None:
    """The text sums from i = 0 to n over vectors of length n: n + 1 terms, the last of which does not exist.

    It matters in the term of both zero points, which is n · za · zb.
    """
    assert (
        compute_factored_product(np.full((1, 3), 5), 2, np.full((3, 1), 7), 4).item() == 3 * 3 * 3
    )


def test_the_terms_of_the_constant_weights_are_computed_once() -> None:
    """Σ qb·za and Σ za·zb hold nothing that changes from one inference to the next."""
    qb = np.array([[3], [5]])
    product = gemmlowp.make_factored_product_preparer(2)(qb, np.array([4]))
    qb[:] = 0  # the first term alone reads the weights again
    assert product(np.zeros((1, 2), np.int64)).item() == 2 * 2 * 4 - 2 * (3 + 5)


def test_symmetric_weights_drop_the_sum_over_the_activations() -> None:
    """With zb = 0 no inference sums the rows of A."""

    class Unsummed(np.ndarray[Any, Any]):
        def sum(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("a row was summed")

    a = np.array([[9, 4]]).view(Unsummed)
    b = np.array([[3], [5]])
    assert (
        gemmlowp.make_factored_product_preparer(2)(b, np.array([0]))(a).item()
        == (9 - 2) * 3 + (4 - 2) * 5
    )
    with pytest.raises(AssertionError, match="summed"):
        gemmlowp.make_factored_product_preparer(2)(b, np.array([1]))(a)


def test_activations_are_multiplied_by_constant_weights() -> None:
    site = Site("Conv", {}, (int8_params(1.0), int8_params(1.0)), (int8_params(1.0),), (None, None))
    with pytest.raises(UnsupportedError, match="constant weight"):
        litert.KERNELS["Conv"](site)


def test_the_sign_matters_only_for_symmetric_quantization() -> None:
    """Signed integers have their zero point 0 in the middle; unsigned ones would have 128."""
    assert INT8.lo + INT8.hi + 1 == 0
    assert TARGET.activation.signed
    assert TARGET.weight.signed
