"""The error of outputs that cannot be subtracted: of other lengths, or with values that were lost."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.optimization.error_energy import measure_error_energy

REFERENCE = np.array([[3.0, 4.0], [1.0, 2.0]], np.float32)


def test_equal_shapes_are_subtracted() -> None:
    assert measure_error_energy(REFERENCE + 1, REFERENCE) == 4.0
    assert measure_error_energy(REFERENCE, REFERENCE) == 0.0


def test_values_that_only_one_has_are_errors_of_their_own() -> None:
    assert measure_error_energy(REFERENCE[:1], REFERENCE) == 5.0
    assert measure_error_energy(REFERENCE, REFERENCE[:1]) == 5.0
    assert measure_error_energy(REFERENCE[0], REFERENCE) == 25.0 + 30.0


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_a_lost_value_costs_at_least_the_energy_of_the_output(lost: float) -> None:
    output = REFERENCE.copy()
    output[0, 0] = lost
    assert measure_error_energy(output, REFERENCE) == 30.0
    assert measure_error_energy(output, output) == 0.0, "what float loses too is no error"


def test_integers_have_no_energy() -> None:
    assert measure_error_energy(np.array([1, 2]), np.array([1, 5])) == 0.0
