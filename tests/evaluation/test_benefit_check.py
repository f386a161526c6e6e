"""Results that are no improvement are said to be none; the figures are set here."""

from __future__ import annotations

import pytest

from ptq.core.targets import get_target
from ptq.core.wording import describe_size_ratio
from ptq.evaluation.benefit_check import check_benefit, check_opset


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (4000, 1000, "4.00 times smaller"),
        (1000, 2800, "2.80 times larger"),
        (9, 9, "1.00 times smaller"),
    ],
)
def test_a_ratio_of_sizes_is_never_below_1(before: int, after: int, text: str) -> None:
    assert describe_size_ratio(before, after) == text


@pytest.mark.parametrize(
    ("sizes", "speed", "target", "parts"),
    [
        (
            (1000, 2800),
            0.5,
            "ort",
            ["2.80 times larger and 2.00 times slower", "nothing is gained"],
        ),
        ((1000, 2800), 1.5, "ort", ["2.80 times larger than float (its weights are few"]),
        ((1000, 2800), None, "ort", ["2.80 times larger than float (its weights are few"]),
        ((4000, 1000), 0.5, "ort", ["2.00 times slower than float (its layers are small"]),
        ((1000, 2800), 0.5, "litert", ["2.80 times larger than float (its weights are few"]),
    ],
)
def test_a_result_larger_or_slower_than_float_is_named_with_the_reason(
    sizes: tuple[int, int], speed: float | None, target: str, parts: list[str]
) -> None:
    (found,) = check_benefit(*sizes, speed, get_target(target))
    assert all(part in found.what for part in parts)
    assert "use the float model" in found.advice


@pytest.mark.parametrize(
    ("speed", "target"), [(1.2, "ort"), (0.97, "ort"), (0.5, "litert"), (0.2, "tensorrt")]
)
def test_no_speed_of_noise_or_of_another_runtime_is_a_fault(speed: float, target: str) -> None:
    assert list(check_benefit(4000, 1000, speed, get_target(target))) == []


def test_s11_a_raised_opset_is_named_with_both_numbers() -> None:
    (found,) = check_opset(17, 20)
    assert found.what.startswith("raised from 17 to 20")
    assert list(check_opset(17, 17)) == []
