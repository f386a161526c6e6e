"""From statistics to a plan; float64 and the issue's rules are the oracles."""

from __future__ import annotations

import numpy as np
import pytest
from cases import CASES, quantized_case
from networks import (
    build_network,
    find_disagreements,
    gaussian_array,
    quantize_network,
    to_samples,
    worst_sqnr_db,
)
from parts import CONV, SAME, WB, V, W, conv_network

from ptq.calibration.collect import observe
from ptq.core.errors import StatsError, UsageError
from ptq.core.plan import Clamp
from ptq.core.run_options import RunOptions
from ptq.core.targets import TARGETS
from ptq.core.types import INT8, UINT8
from ptq.model.graph import Graph
from ptq.model.session.exposed_session import CollectedTensors
from ptq.observers import OBSERVERS
from ptq.rewrite.prepare.prepare import prepare
from ptq.solver.assign import list_tensors_to_observe
from ptq.solver.recipe import Recipe
from ptq.solver.skipped_nodes import SKIPPED_REASON
from ptq.solver.solve import solve


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["ort", "litert"])
def test_every_scale_says_why_and_zero_is_exact(name: str, target: str) -> None:
    plan = quantized_case(name, target).plan
    qtype = {"ort": UINT8, "litert": INT8}[target]
    of_inputs = [*plan.operands, *plan.edges]
    keys = [*plan.tensors, *(f"{node}[{position}]" for node, position in of_inputs)]
    assert sorted(plan.why) == sorted(keys)
    for name_, params in plan.tensors.items():
        assert str(plan.why[name_])
        assert params.qtype == qtype
        assert qtype.lo <= params.zero_point <= qtype.hi
        assert params.dequantize(params.quantize(np.float32(0))) == 0


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_min_max_covers_what_was_seen_to_half_a_step(target: str) -> None:
    done = quantized_case("residual", target)
    for name, stats in done.calibration.tensors.items():
        params = done.plan.tensors.get(name)
        if params is not None:
            step = float(params.scale)
            lo = step * (params.qtype.lo - int(params.zero_point))
            hi = step * (params.qtype.hi - int(params.zero_point))
            assert lo <= min(0, stats.min) + 0.51 * step
            assert hi >= max(0, stats.max) - 0.51 * step


def test_a_shared_scale_covers_all_that_share_it() -> None:
    done = quantized_case("concat", "litert")
    y = done.plan.tensors["y"]
    largest = max(done.calibration.tensors[n].max for n in ("c", "d"))
    assert float(y.scale) * (127 - int(y.zero_point)) >= largest - float(y.scale)


@pytest.mark.parametrize("method", OBSERVERS)
def test_every_method_gives_a_plan_that_names_it(method: str) -> None:
    done = quantize_network(CASES["residual"], method=method)
    assert str(done.plan.why["x"]) == f"observed: {method}"
    assert worst_sqnr_db(done) > 15


def test_a_constant_takes_its_own_extremes() -> None:
    done = quantize_network(conv_network("y = Mul(c, k)", k=gaussian_array(8)))
    assert str(done.plan.why["k"]) == "constant: minimum and maximum"
    k = gaussian_array(8)
    expected = (max(0, k.max()) - min(0, k.min())) / 255
    assert float(done.plan.tensors["k"].scale) == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("target", ["ort", "litert"])
@pytest.mark.parametrize(
    ("lo", "hi", "folds"),
    [(0, 6, True), (-1, 1, True), (-0.5, 2, True), (1, 5, False), (-5, -0.5, False)],
)
def test_a_clip_folds_where_its_range_contains_zero(
    target: str, lo: float, hi: float, folds: bool
) -> None:
    model = conv_network("y = Clip(c, lo, hi)", lo=np.float32(lo), hi=np.float32(hi))
    plan = quantize_network(model, target=target).plan
    assert (plan.folded == {"Clip_y": "Conv_c"}) == folds
    if not folds:
        y = plan.tensors["y"]
        assert plan.tensors["c"] == y
        bounds = [int(y.quantize(np.float32(b))) for b in (lo, hi)]
        assert plan.clamps == {"Clip_y": Clamp("Conv_c", *bounds)}


def test_a_nan_in_a_tensor_leaves_its_nodes_float_and_says_so() -> None:
    model = build_network(f"c = Conv{SAME}(x, w)\nl = Log(c)\ny = Conv{SAME}(l, v)", w=W, v=V)
    done = quantize_network(model)
    assert done.float_reasons()["Conv"] == "l held NaN or Inf during calibration"
    assert "Conv_c" not in done.plan.floats
    assert np.isnan(done.feeds[0]["x"]).sum() == 0


def test_a_skipped_node_that_does_not_exist_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"cannot skip conv: .*\(did you mean Conv\?\); inspect"):
        quantize_network(CASES["relu"], skip=["conv"])
    with pytest.raises(UsageError, match=r"cannot skip Conv_z.*inspect the model"):
        quantize_network(CASES["relu"], skip=["Conv_z"])


def test_statistics_that_lack_a_tensor_are_refused() -> None:
    done = quantized_case("residual")
    less = {n: s for n, s in done.calibration.tensors.items() if n != "y"}
    with pytest.raises(StatsError, match="tensor y was not observed"):
        solve(done.prepared, less, TARGETS["ort"], Recipe(method="minmax"))


@pytest.mark.parametrize("target", ["ort", "litert"])
@pytest.mark.parametrize(
    "name",
    [
        "residual",
        "concat",
        "dense block",
        "swish",
        "max pool",
        "reshape by shape",
        "clip 1 5",
        "attention",
        "pad with a value",
        "relu with a second reader",
        "transpose and back",
    ],
)
def test_no_skip_list_asks_for_statistics_that_calibration_did_not_gather(
    name: str, target: str
) -> None:
    graph = prepare(Graph.from_proto(CASES[name])).graph
    feeds = quantized_case(name).feeds
    stats = observe(
        graph,
        to_samples(feeds),
        CollectedTensors(list_tensors_to_observe(graph)),
        run=RunOptions(threads=1),
    ).tensors
    for node in graph.nodes:
        recipe = Recipe(target, "minmax", float_nodes={str(node.name): SKIPPED_REASON})
        plan = solve(graph, stats, TARGETS[target], recipe)
        assert node.name in plan.floats


def test_a_range_that_was_not_observed_is_that_of_what_was_moved() -> None:
    done = quantize_network(
        conv_network(f"m = MaxPool<kernel_shape=[2,2]>(c)\ny = Conv{SAME}(m, v)", v=V),
        skip=["MaxPool"],
    )
    assert "m" not in done.calibration.tensors
    assert done.plan.tensors["m"] == done.plan.tensors["c"]


def test_a_convolution_whose_activation_is_skipped_stays_float_with_it() -> None:
    done = quantize_network(CASES["residual"], skip=["Relu_r"])
    assert done.plan.floats["Conv_c"] == "c was not observed before its activation"
    assert worst_sqnr_db(done) > 30


@pytest.mark.parametrize("name", ["Conv_c", "Conv"])
def test_a_skipped_node_has_no_scale(name: str) -> None:
    plan = quantize_network(
        build_network(CONV + f"y = Conv{SAME}(c, v)", v=V, **WB), skip=[name]
    ).plan
    assert plan.floats["Conv_c"] == "skipped by the user"
    assert ("Conv_c", 1) not in plan.operands


def test_the_plan_carries_the_digest_of_the_prepared_graph() -> None:
    done = quantized_case("relu")
    assert done.plan.graph == done.prepared.digest()


@pytest.mark.parametrize("target", ["ort", "litert"])
def test_a_leaky_relu_does_the_work_of_a_bound_behind_it(target: str) -> None:
    nodes = "c = Conv(x, w)\nl = LeakyRelu<alpha = 0.2>(c)\nm = Max(l, k)\ny = Conv(m, v)"
    model = build_network(
        nodes, w=gaussian_array(4, 3, 3, 3), v=gaussian_array(4, 4, 1, 1), k=np.float32(-0.4)
    )
    done = quantize_network(model, target=target)
    assert list(done.plan.folded.values()) == ["LeakyRelu_l"]
    assert not done.plan.floats
    assert find_disagreements(done) == []
