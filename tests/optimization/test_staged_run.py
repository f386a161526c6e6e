"""Oracle: one run of the whole graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx.parser
import pytest

from ptq.data import Sample
from ptq.model.graph import Graph
from ptq.model.node import get_name
from ptq.model.session.session import Session
from ptq.optimization import staged_run
from ptq.optimization.staged_run import StagedRun

MODEL = """
<ir_version: 10, opset_import: ["": 17]>
f (float[N, 4] x, float[N, 4] mask) => (float[N, 4] y)
<float scale = {0.1}, uint8 zero = {128}>
{
    a = Tanh(x)
    q = QuantizeLinear(a, scale, zero)
    b = DequantizeLinear(q, scale, zero)
    c = Neg(b)
    skip = Add(b, x)
    d = Mul(c, mask)
    y = Add(d, skip)
}
"""
STAGES = (["b"], ["c", "b"], ["y"])


def graph() -> Graph:
    return Graph.from_proto(onnx.parser.parse_model(MODEL)).with_shapes()


def samples() -> list[Sample]:
    draw = np.random.default_rng(0).normal(size=(3, 2, 2, 4)).astype(np.float32)
    return [Sample(f"s{i}", {"x": x, "mask": mask}) for i, (x, mask) in enumerate(draw)]


def unread() -> Iterator[Sample]:
    raise AssertionError("the samples are read again")
    yield


@pytest.mark.parametrize("limit", [staged_run._LIVE_LIMIT, 0])
def test_stages_compute_what_one_run_computes(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_run, "_LIVE_LIMIT", limit)
    whole = graph()
    whole.add_outputs(["b", "c"])
    session, stages = Session(whole, threads=1), StagedRun(threads=1)
    for number, wanted in enumerate(STAGES):
        later = [name for names in STAGES[number + 1 :] for name in names]
        given = samples() if limit == 0 or number == 0 else unread()
        found = list(stages.run(graph(), given, wanted, later))
        assert [name for name, _ in found] == ["s0", "s1", "s2"]
        for sample, (_, values) in zip(samples(), found, strict=True):
            expected = session.run(sample.feed, wanted)
            for name, array in zip(wanted, expected, strict=True):
                np.testing.assert_array_equal(values[name], array)


def test_a_later_stage_runs_only_what_is_missing_and_dequantizes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = []
    extract = Graph.extract
    monkeypatch.setattr(
        Graph,
        "extract",
        lambda self, nodes, *names: (
            parts.append([get_name(node.outputs[0]) for node in nodes])
            or extract(self, nodes, *names)
        ),
    )
    stages = StagedRun(threads=1)
    list(stages.run(graph(), samples(), ["b"], ["y"]))
    list(stages.run(graph(), unread(), ["y"], []))
    assert parts == [["a", "q", "b"], ["b", "c", "skip", "d", "y"]]
