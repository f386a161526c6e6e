"""Tables of times of this machine; the oracle is what a timed kernel must decide."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from networks import build_network, gaussian_array
from ptq_cli.main import app
from typer.testing import CliRunner

import ptq
from ptq.api import kernel_times
from ptq.api.kernel_times import find_channel_block, list_layout_changes
from ptq.api.tune import _collect_kernels, fit_scales
from ptq.core.ops import OPS
from ptq.core.run_options import RunOptions
from ptq.core.targets import get_target
from ptq.model.graph import Graph
from ptq.model.machine.ort_version import ORT_VERSION
from ptq.model.node import get_spec_name
from ptq.model.session.session import Session
from ptq.rewrite.instrument.kernel_grid import build_kernel_grid
from ptq.rewrite.instrument.timing_graph import (
    build_block_graph,
    build_crossing_graph,
    build_layout_graph,
)
from ptq.solver.partition.cost_model import estimate_sizes, price_kernel
from ptq.solver.partition.cost_table import ORT_1_31_AVX512_VNNI, use_cost_table
from ptq.solver.partition.cost_table_file import load_cost_table, save_cost_table
from ptq.solver.partition.kernel_key import build_kernel_key, get_kernel_kind
from ptq.solver.partition.shipped_tables import (
    choose_table,
    describe_this_processor,
    get_cost_table,
)

TEXT = """
c = Conv<pads = [1, 1, 1, 1]>(x, u)
r = Relu(c)
d = Conv<pads = [1, 1, 1, 1]>(r, w)
e = Conv<pads = [1, 1, 1, 1]>(d, w)
p = GlobalAveragePool(e)
y = Flatten(p)
"""


def _network() -> Any:
    weights = {"u": gaussian_array(32, 16, 3, 3), "w": gaussian_array(32, 32, 3, 3) / 16}
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    return build_network(TEXT, {"x": (1, 16, 24, 24)}, **weights)


@pytest.fixture(scope="module")
def tuned() -> ptq.Tuned:
    return ptq.tune(_network(), threads=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "samples.npz"
    np.savez(path, x=gaussian_array(20, 16, 24, 24).astype(np.float32))
    return path


def test_each_kernel_is_timed_once_in_float_and_on_integers(tuned: ptq.Tuned) -> None:
    kinds = [key.split()[0] for key in tuned.table.kernels]
    assert sorted(kinds) == ["Conv", "Conv", "GlobalAveragePool", "Relu"]
    assert all(one > 0 and other > 0 for one, other in tuned.table.kernels.values())
    assert tuned.timed == 4
    assert tuned.left_out == ()


def test_a_table_is_read_as_it_was_written(tuned: ptq.Tuned, tmp_path: Path) -> None:
    tuned.save(tmp_path / "t.json")
    assert load_cost_table(tmp_path / "t.json") == tuned.table
    assert load_cost_table(tmp_path / "t.json").digest == tuned.table.digest


def test_a_kernel_that_is_slow_on_integers_stays_float(
    tuned: ptq.Tuned, data: Path, tmp_path: Path
) -> None:
    slow = {
        key: (one, 1e3 * one) if "16×24×24 " in key else (one, one / 100)
        for key, (one, _) in tuned.table.kernels.items()
    }
    save_cost_table(replace(tuned.table, kernels=slow), tmp_path / "slow.json")
    options: dict[str, Any] = {"effort": "fast", "threads": 1}
    found = ptq.quantize(_network(), data, cost_table=tmp_path / "slow.json", **options)
    shipped = ptq.quantize(_network(), data, **options)
    assert "Conv_c" in found.plan.floats
    assert "Conv_c" not in shipped.plan.floats
    assert found.plan.costs is not None
    assert shipped.plan.costs is not None
    assert found.plan.costs["table"] == "tuned"
    assert found.plan.costs["digest"] != shipped.plan.costs["digest"]
    assert ptq.Plan.from_json(found.plan.to_json()).costs == found.plan.costs


def test_the_given_table_decides_in_its_context_only() -> None:
    row, other = get_target("ort"), replace(ORT_1_31_AVX512_VNNI, name="other")
    shipped = choose_table(describe_this_processor(), ORT_VERSION).table
    with use_cost_table(other):
        assert get_cost_table(row) == other
        assert get_cost_table(get_target("litert")) is None
    assert get_cost_table(row) == shipped != other


def _spoil(document: dict[str, Any], key: str, value: Any) -> str:
    return json.dumps({**document, key: value})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("format", 7, "format 1"),
        ("block", "many", "'block'"),
        ("float_product", -1.0, "'float_product'"),
        ("float_product", 1e300, "'float_product'"),
        ("kernels", [], "'kernels'"),
        ("kernels", {"Conv": [1.0]}, "two numbers"),
        ("kernels", {"Conv": [1.0, True]}, "two numbers"),
        ("further", 1, "'further'"),
        ("name", 3, "'name'"),
    ],
)
def test_a_spoiled_table_is_refused_with_the_entry(
    tuned: ptq.Tuned, data: Path, tmp_path: Path, key: str, value: Any, says: str
) -> None:
    tuned.save(tmp_path / "t.json")
    document = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    (tmp_path / "t.json").write_text(_spoil(document, key, value), encoding="utf-8")
    with pytest.raises(ptq.UsageError, match="ptq tune wrote") as error:
        ptq.quantize(_network(), data, cost_table=tmp_path / "t.json")
    assert says in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"[" * 100000, b'{"a": NaN}'])
def test_a_file_that_is_no_table_is_refused(data: Path, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(ptq.UsageError, match="no table of times"):
        ptq.quantize(_network(), data, cost_table=tmp_path / "t.json")


def test_a_missing_table_is_a_usage_error(data: Path, tmp_path: Path) -> None:
    with pytest.raises(ptq.UsageError, match=r"none\.json"):
        ptq.quantize(_network(), data, cost_table=tmp_path / "none.json")


def test_a_model_whose_shapes_vary_cannot_be_timed() -> None:
    model = build_network("y = Relu(x)", {"x": (1, None, None)})
    with pytest.raises(ptq.UsageError, match="no kernel of the model can be timed"):
        ptq.tune(model, threads=1)


def test_a_speed_far_from_the_estimate_proposes_to_tune(data: Path, tuned: ptq.Tuned) -> None:
    wrong = dict.fromkeys(tuned.table.kernels, (1000000000.0, 1.0))
    table = replace(tuned.table, kernels=wrong)
    report = ptq.quantize(_network(), data, cost_table=table, effort="fast", threads=1).report
    (note,) = [note for note in report.notes if "estimated" in note]
    assert "tune makes one that does" in note


def test_without_a_model_common_kernels_of_all_kinds_are_timed_within_the_limit() -> None:
    start = perf_counter()
    found = ptq.tune(seconds=0.5, threads=1)
    assert perf_counter() - start < 20  # the limit, the kernel that runs then, and a busy machine
    assert 0 < found.timed < 78
    assert found.timed + len(found.left_out) > 75
    assert "the time limit had passed" in found.left_out[-1][1]


def test_the_grid_holds_kernels_of_common_networks_by_the_keys_of_their_exports() -> None:
    keys = {build_kernel_key(graph.nodes[0]) for graph in build_kernel_grid()}
    bottleneck = (
        "Conv dilations=1,1 group=1 kernel_shape=3,3 pads=1,1,1,1 strides=1,1 "
        "1×64×56×56 c64×64×3×3 c64 → 1×64×56×56"
    )
    assert {bottleneck, "MatMul 1×128×768 c768×3072 → 1×128×3072"} <= keys
    assert None not in keys


def test_every_kernel_of_the_grid_is_timed_and_counted_in_the_help() -> None:
    keys = {build_kernel_key(graph.nodes[0]) for graph in build_kernel_grid()}
    assert set(_collect_kernels(None)) == keys
    shown = CliRunner().invoke(app, ["tune", "--help"], env={"COLUMNS": "200"}).output.split()
    assert f"a standard grid of {len(keys)} common kernels" in " ".join(shown)


def test_estimates_of_a_kind_are_scaled_by_the_median_of_its_timed_kernels() -> None:
    """A machine that takes twice as long in float, and thrice on integers, for pointwise convolutions."""
    nodes = {build_kernel_key(g.nodes[0]) or "": (g, g.nodes[0]) for g in build_kernel_grid()}
    kernels = {}
    for key, (graph, node) in nodes.items():
        own = price_kernel(
            node, OPS[get_spec_name(node)], estimate_sizes(graph), ORT_1_31_AVX512_VNNI
        )
        slower = (2.0, 3.0) if get_kernel_kind(node) == "Conv, pointwise" else (1.0, 1.0)
        kernels[key] = (slower[0] * own.float_cost, slower[1] * own.integer_cost)
    scales = fit_scales(nodes, kernels, ORT_1_31_AVX512_VNNI)
    assert scales.pop("Conv, pointwise") == (2.0, 3.0)
    assert set(scales.values()) == {(1.0, 1.0)}
    assert {"Conv", "Conv, depthwise", "MatMul", "Add"} <= scales.keys()


def test_kernels_that_take_little_longer_than_a_call_tell_nothing_of_larger_ones() -> None:
    call = ORT_1_31_AVX512_VNNI.kernel_call
    grid = [(build_kernel_key(g.nodes[0]) or "", g) for g in build_kernel_grid()]
    nodes = {key: (graph, graph.nodes[0]) for key, graph in grid}
    short = dict.fromkeys(nodes, (3.9 * call, 100 * call))
    assert fit_scales(nodes, short, ORT_1_31_AVX512_VNNI) == {}
    assert fit_scales(nodes, dict.fromkeys(nodes, (4 * call, 4 * call)), ORT_1_31_AVX512_VNNI)


@pytest.mark.parametrize(("version", "scales"), [("1.31.1", {}), ("1.32.0", {"Add": (1.0, 0.9)})])
def test_what_is_not_timed_has_the_times_of_the_table_of_this_onnx_runtime(
    version: str, scales: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptq.solver.partition.shipped_tables.ORT_VERSION", version)
    assert ptq.tune(_network(), seconds=0, threads=1).table.scales == scales


def test_a_table_of_before_has_no_scales_and_is_read(tuned: ptq.Tuned, tmp_path: Path) -> None:
    tuned.save(tmp_path / "t.json")
    document = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    del document["scales"]
    (tmp_path / "t.json").write_text(json.dumps(document), encoding="utf-8")
    assert load_cost_table(tmp_path / "t.json") == replace(tuned.table, scales={})


def test_the_layout_changes_of_a_convolution_alone_run_in_this_onnx_runtime() -> None:
    """Else a table counts them in each convolution, though there are none between two."""
    shapes = (1, 24, 20, 20), (1, 40, 10, 10)
    graphs = [build_layout_graph(*shapes), build_block_graph(*shapes, find_channel_block())]
    graphs += [
        build_block_graph(None, shapes[1], find_channel_block()),
        build_crossing_graph(24, 20),
    ]
    for graph in graphs:
        feed = {v.name: np.zeros([int(n) for n in v.shape], v.dtype.numpy()) for v in graph.inputs}
        assert Session(graph, threads=1).run(feed)


def test_a_convolution_is_timed_without_its_changes_of_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seconds are given: 2 in float, 1 on integers, and for each change of layout a quarter of one."""
    weights = {"w": gaussian_array(16, 16, 1, 1).astype(np.float32)}
    graph = Graph.from_proto(build_network("y = Conv(x, w)", {"x": (1, 16, 112, 112)}, **weights))
    (node,) = graph.nodes
    assert [form for form, _ in list_layout_changes(node)] == [1, 0]
    monkeypatch.setattr(
        kernel_times, "_time_in_turns", lambda pairs: [2.0, 1.0, 0.25, 0.25][: len(pairs)]
    )
    run = RunOptions(threads=1)
    assert kernel_times.time_kernel(graph, node, 0.0, 1e-6, run) == (1.75e6, 0.75e6)
    monkeypatch.setattr(kernel_times, "list_layout_changes", lambda _: [])
    assert kernel_times.time_kernel(graph, node, 0.0, 1e-6, run) == (2e6, 1e6)


def test_a_convolution_that_is_nearly_only_changes_of_layout_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What remains of 2 seconds after 1.7 of the change of layout is noise, not a time."""
    weights = {"w": gaussian_array(16, 16, 1, 1).astype(np.float32)}
    network = build_network("y = Conv(x, w)", {"x": (1, 16, 112, 112)}, **weights)
    graph = Graph.from_proto(network)
    monkeypatch.setattr(
        kernel_times, "_time_in_turns", lambda pairs: [2.0, 1.0, 0.25, 1.7][: len(pairs)]
    )
    with pytest.raises(ptq.ModelError, match="changes of layout"):
        kernel_times.time_kernel(graph, graph.nodes[0], 0.0, 1e-6, RunOptions(threads=1))
