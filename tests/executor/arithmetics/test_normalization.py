"""LayerNormalization and InstanceNormalization in integers against float64, within the stated bound."""

from __future__ import annotations

import numpy as np
import pytest
from sites import int8_params, run_node

from ptq.core.errors import UnsupportedError
from ptq.core.types import QuantParams

RNG = np.random.default_rng(1)


def within_the_bound(
    got: np.ndarray, x_hat: np.ndarray, g: np.ndarray, b: np.ndarray, y: QuantParams
) -> None:
    steps = x_hat * g / float(y.scale)
    exact = np.clip(steps + b / float(y.scale) + int(y.zero_point), -128, 127)
    assert (np.abs(got - exact) <= 0.5 + 2.0**-8 + 2.0**-18 * np.abs(steps)).all()


def standardized(q: np.ndarray, scale: float, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    real = q.astype(np.float64) * float(np.float32(scale))
    centred = real - real.mean(axis=axes, keepdims=True)
    variance = (centred**2).mean(axis=axes, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + float(np.float32(epsilon))))


@pytest.mark.parametrize("n", [4, 64, 500])
@pytest.mark.parametrize(("scale", "epsilon"), [(0.05, 1e-5), (0.001, 1e-3), (0.25, 1e-12)])
def test_a_layer_is_normalized_within_the_stated_steps(
    n: int, scale: float, epsilon: float
) -> None:
    q = RNG.normal(20, RNG.choice([2, 40], (30, 1)), (30, n)).clip(-128, 127).astype(np.int8)
    g, b = RNG.normal(size=n).astype(np.float32), RNG.normal(size=n).astype(np.float32)
    y = int8_params(0.03, -9)
    operands = [(q, int8_params(scale, 5)), (g, None), (b, None)]
    got = run_node("litert", "LayerNormalization", operands, y, constants=(1, 2), epsilon=epsilon)
    within_the_bound(got, standardized(q, scale, (1,), epsilon), g, b, y)


def test_a_layer_of_several_axes_needs_no_bias() -> None:
    q = RNG.integers(-128, 128, (3, 4, 6)).astype(np.int8)
    g, y = RNG.normal(size=(4, 6)).astype(np.float32), int8_params(0.02)
    operands = [(q, int8_params(0.1, -3)), (g, None)]
    got = run_node("gemmlowp", "LayerNormalization", operands, y, constants=(1,), axis=1)
    within_the_bound(got, standardized(q, 0.1, (1, 2), 1e-5), g, np.zeros(1), y)


def test_an_instance_is_normalized_a_channel() -> None:
    q = RNG.integers(-128, 128, (2, 3, 7, 5)).astype(np.int8)
    g, b = RNG.normal(size=3).astype(np.float32), RNG.normal(size=3).astype(np.float32)
    y = int8_params(0.04, 10)
    operands = [(q, int8_params(0.02, 50)), (g, None), (b, None)]
    got = run_node("litert", "InstanceNormalization", operands, y, constants=(1, 2))
    a_channel = (3, 1, 1)
    expected = standardized(q, 0.02, (2, 3), 1e-5)
    within_the_bound(got, expected, g.reshape(a_channel), b.reshape(a_channel), y)


def test_an_output_too_narrow_for_the_multiplier_is_refused() -> None:
    q, g = np.zeros((1, 4), np.int8), np.full(4, 2000, np.float32)
    operands = [(q, int8_params(0.1)), (g, None)]
    with pytest.raises(UnsupportedError, match="wider range"):
        run_node("litert", "LayerNormalization", operands, int8_params(1.0), constants=(1,))
