"""Estimated costs of roundings; each source run alone is the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from networks import feeds, network, quantized
from parts import CONV, SAME, WB, V

from ptq.data import Sample
from ptq.errors import DataError
from ptq.moves import counted, greedily, ranked
from ptq.rewrite.probe import Probe, Source, probe
from ptq.sensitivity import Costs, costs

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


def _costs(*sources: tuple[str, set[str], float]) -> Costs:
    made = tuple(Source("tensor", name, "", frozenset(nodes)) for name, nodes, _ in sources)
    shares = np.array([share for *_, share in sources])
    return Costs(made, shares, 0 * shares, shares > 0, 1, 1)


def test_a_move_wins_all_that_vanishes_with_it() -> None:
    moves = ranked(_costs(("t", {"a", "b"}, 3.0), ("u", {"a"}, 2.0), ("v", {"c"}, 4.0)))
    assert [(sorted(m.nodes), m.share) for m in moves] == [
        (["a", "b"], 5.0),
        (["c"], 4.0),
        (["a"], 2.0),
    ]
    assert moves[0].source.tensor == "t"


def test_moves_follow_by_what_each_node_more_wins() -> None:
    given = _costs(("t", {"a", "b"}, 5.0), ("u", {"c"}, 4.0), ("v", {"b", "c"}, 3.0))
    moves = list(greedily(given, {}, 3))
    assert [sorted(m.nodes) for m in moves] == [["c"], ["a", "b"]]
    assert [m.share for m in moves] == [4.0, 8.0]


def test_moves_end_where_so_many_nodes_are_float() -> None:
    given = _costs(("t", {"a", "b"}, 5.0), ("u", {"c"}, 1.0))
    assert [sorted(m.nodes) for m in greedily(given, {}, 1)] == [["c"]]
    both = frozenset(["a", "b"])
    fused = {"a": both, "b": both}
    assert counted(frozenset(["a", "b", "c"]), fused) == 2
    assert [sorted(m.nodes) for m in greedily(given, fused, 1)] == [["a", "b"]]
