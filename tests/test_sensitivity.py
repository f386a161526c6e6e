"""Estimated costs of roundings; each source run alone is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import feeds, network, quantized
from parts import CONV, SAME, WB, V

from ptq.data import Sample
from ptq.errors import DataError
from ptq.rewrite.probe import Probe, probe
from ptq.sensitivity import costs

BODY = CONV + f"r = Relu(c)\nm = MaxPool<kernel_shape=[2,2]>(r)\ny = Conv{SAME}(m, v)"


@pytest.fixture(scope="module")
def samples() -> list[Sample]:
    given = feeds(network(BODY, v=V, **WB))
    return [Sample(str(index), feed) for index, feed in enumerate(given)]


@pytest.fixture(scope="module")
def apart() -> Probe:
    done = quantized(network(BODY, v=V, **WB))
    return probe(done.prepared, done.plan, done.qdq)


def test_probes_of_all_sources_find_what_each_costs_alone(
    apart: Probe, samples: list[Sample]
) -> None:
    truth = costs(apart, samples, alone=99, threads=1)
    probed = costs(apart, samples, probes=64, alone=0, threads=1)
    assert truth.measured.all()
    assert not probed.measured.any()
    total = truth.shares.sum()
    assert np.abs(probed.shares - truth.shares).max() < 0.1 * total


def test_the_costliest_are_measured_and_runs_are_counted(
    apart: Probe, samples: list[Sample]
) -> None:
    truth = costs(apart, samples, alone=99, threads=1)
    found = costs(apart, samples, probes=16, alone=2, threads=1)
    assert int(found.measured.sum()) == 2
    assert found.shares[found.measured] == pytest.approx(truth.shares[found.measured])
    assert (found.samples, found.runs) == (len(samples), 16 + 2 + 2)


def test_costs_are_the_same_every_time(apart: Probe, samples: list[Sample]) -> None:
    one, other = (costs(apart, samples, threads=1) for _ in range(2))
    assert np.array_equal(one.shares, other.shares)


def test_no_sample_is_an_error(apart: Probe) -> None:
    with pytest.raises(DataError, match="no sample"):
        costs(apart, [], threads=1)
