"""How many samples and rows the input covariances take."""

from __future__ import annotations

import pytest
from networks import build_network, gaussian_array

from ptq.calibration.covariance_job import count_rows_per_sample
from ptq.calibration.rounding_samples import choose_sample_count
from ptq.model.graph import Graph
from ptq.observers.calibration_file import Calibration
from ptq.observers.stats import TensorStats
from ptq.solver.rounding.weighted_sums import LinearOp


@pytest.mark.parametrize(
    ("values_per_sample", "expected"), [(2**10, 256), (2**20, 128), (2**21, 64), (2**30, 32)]
)
def test_large_samples_are_fewer(values_per_sample: int, expected: int) -> None:
    stats = TensorStats()
    stats.count = 100 * values_per_sample
    assert choose_sample_count(Calibration("", 100, {"x": stats})) == expected


@pytest.mark.parametrize(
    ("inputs", "rows"), [(16, 2048), (128, 2048), (256, 1024), (512, 1024), (1024, 2048)]
)
def test_short_rows_are_more(inputs: int, rows: int) -> None:
    """At least two rows an input and 512; up to 2,048 where they are cheap."""
    model = build_network("y = MatMul(x, w)", {"x": ("n", inputs)}, w=gaussian_array(inputs, 4))
    [node] = Graph.from_proto(model).nodes
    assert count_rows_per_sample(LinearOp(node), 64) * 64 == rows
