"""Extraction of float islands; ONNX Runtime's run of the whole graph is the oracle."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from cases import CASES, quantized_case
from networks import build_network, quantize_network
from parts import CONV, SAME, WB, V

from ptq.executor.executor import Executor
from ptq.executor.float_islands import FloatIsland
from ptq.executor.step_runner import prepare_island
from ptq.model.graph import Graph
from ptq.model.session.session import Session


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["ort", "litert"])
def test_an_island_is_a_model_that_computes_what_the_whole_graph_computes(
    name: str, target: str
) -> None:
    done = quantized_case(name, target)
    program = Executor(done.qdq, target).program
    found = [step for step in program.steps if isinstance(step, FloatIsland)]
    exposed = done.qdq.copy()
    exposed.add_outputs({n for island in found for n in (*island.inputs, *island.outputs)})
    session = Session(exposed, threads=1, optimize="none")
    whole = dict(zip(session.outputs, session.run(done.feeds[0]), strict=True)) | done.feeds[0]
    for island in found:
        feed = {name: whole[name] for name in island.inputs}
        cut = Session(island.graph, threads=1, optimize="none").run(feed, island.outputs)
        for tensor, array in zip(island.outputs, cut, strict=True):
            assert array.tobytes() == whole[tensor].tobytes(), tensor


def test_float_nodes_that_touch_are_one_island_of_integers() -> None:
    model = build_network(
        CONV + f"s = Sin(c)\nt = Cos(s)\nu = Sub(t, s)\ny = Conv{SAME}(u, v)", v=V, **WB
    )
    (island,) = [
        s for s in Executor(quantize_network(model).qdq).program.steps if isinstance(s, FloatIsland)
    ]
    assert island.ops == ("Sin", "Cos", "Sub")
    assert island.inputs == ("c_quantized",)
    assert island.outputs == ("u_quantized",)


def test_an_island_carries_only_what_it_needs() -> None:
    model = build_network(CONV + f"s = Sin(c)\ny = Conv{SAME}(s, v)", v=V, **WB)
    (island,) = [
        s for s in Executor(quantize_network(model).qdq).program.steps if isinstance(s, FloatIsland)
    ]
    names = {t.name for t in island.graph.to_proto().graph.initializer}
    assert {name.rpartition("_")[2] for name in names} == {"scale", "point"}
    assert len(island.graph.nodes) == 3


def test_what_an_if_captures_goes_into_the_island() -> None:
    done = quantized_case("if capturing")
    (island,) = [s for s in Executor(done.qdq).program.steps if isinstance(s, FloatIsland)]
    assert set(island.inputs) == {"flag", "c_quantized", "d_quantized"}
    for flag in (False, True):
        feed = {**done.feeds[0], "flag": np.array(flag)}
        ours = Executor(done.qdq).run(feed)["y"]
        assert np.array_equal(ours, Session(done.qdq, threads=1).run(feed, ["y"])[0])


@pytest.mark.parametrize(
    ("node", "runs"),
    [("y = ConstantOfShape(two)", 1), ("y = RandomNormal <shape = [2]> ()", 3)],
)
def test_an_island_without_inputs_runs_once_unless_it_is_random(
    node: str, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph.from_proto(
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 13]> m () => (float[2] y) <int64[1] two = {{2}}> {{ {node} }}'
        )
    )
    counted, run = [], Session.run
    monkeypatch.setattr(Session, "run", lambda *args: counted.append(1) or run(*args))
    runner = prepare_island(FloatIsland("y", ("any",), graph, (), ("y",)), moves_transposes=True)
    for _ in range(3):
        [result] = runner(())
        assert result.array.shape == (2,)
    assert len(counted) == runs
