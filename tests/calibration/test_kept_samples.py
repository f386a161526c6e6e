"""Statistics that keep samples are enough: quantization decides from them what it decides from data."""

from __future__ import annotations

from functools import reduce
from itertools import permutations
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array

import ptq
from ptq.core.errors import StatsError
from ptq.model.metadata import PROVENANCE, read_record
from ptq.observers.calibration_file import Calibration, from_bytes
from ptq.observers.keep_limit import KeepLimit
from ptq.observers.kept_samples import KeptSamples, SampleKeeper

COUNT = 24


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    """Two convolutions whose channels differ much, so that equalization has something to win."""
    first = gaussian_array(6, 3, 3, 3, seed=1, scale=0.3)
    first[0] *= 30
    return build_network(
        "a = Conv<pads=[1,1,1,1]>(x, w)\nb = Relu(a)\ny = Conv<pads=[1,1,1,1]>(b, v)",
        {"x": ("n", 3, 8, 8)},
        ("y",),
        w=first,
        v=gaussian_array(5, 6, 3, 3, seed=2, scale=0.3),
    )


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    x = gaussian_array(COUNT, 3, 8, 8, seed=3)
    x[5] = x[4]  # the same content twice counts twice
    return {"x": x}


def quantize(model: onnx.ModelProto, data: object = None, **options: object) -> ptq.Result:
    return ptq.quantize(
        model, data, eval_data={"x": gaussian_array(8, 3, 8, 8, seed=9)}, threads=1, **options
    )


def test_all_kept_samples_give_the_model_of_the_data(model, data) -> None:
    shards = [
        ptq.calibrate(model, data, shard=(k, 3), keep_samples=100, threads=1) for k in range(3)
    ]
    stats = reduce(Calibration.merge, shards)
    assert stats.kept is not None
    assert len(stats.kept.feeds) == COUNT
    again = from_bytes(stats.to_bytes(), "stats")
    by_stats, by_data = quantize(model, stats=again), quantize(model, data)
    assert by_stats.graph.to_bytes() == by_data.graph.to_bytes()
    assert by_stats.plan.to_json() == by_data.plan.to_json()
    few = quantize(model, stats=ptq.calibrate(model, data, keep_samples=COUNT - 1, threads=1))
    given = [read_record(of.graph, PROVENANCE)["given"] for of in (by_stats, few)]
    assert given == [[], ["statistics"]]
    assert any("equalization" in line for line in by_data.report.changes)
    assert any("that the statistics keep" in line for line in by_stats.report.changes)


def test_a_size_that_all_samples_fit_gives_the_model_of_the_data(model, data) -> None:
    size = data["x"].nbytes
    stats = ptq.calibrate(model, data, keep_samples="1MB", threads=1)
    assert stats.kept is not None
    assert sum(feed["x"].nbytes for feed in stats.kept.feeds.values()) == size
    again = from_bytes(stats.to_bytes(), "stats")
    assert quantize(model, stats=again).graph.to_bytes() == quantize(model, data).graph.to_bytes()


@pytest.mark.parametrize("target", ["ort", "portable"])
def test_all_kept_samples_decide_how_the_model_is_prepared(target: str) -> None:
    """Target ``portable`` keeps a Gelu in pieces; statistics are those of the fused one."""
    network = build_network(
        "h = MatMul(x, w)\na = Div(h, root)\ne = Erf(a)\np = Add(e, one)\nq = Mul(h, p)\n"
        "g = Mul(q, half)\ny = MatMul(g, v)",
        {"x": ("n", 16)},
        ("y",),
        opset=13,
        w=gaussian_array(16, 32, seed=1, scale=0.3),
        v=gaussian_array(32, 8, seed=2, scale=0.3),
        root=np.array(2**0.5, np.float32),
        one=np.array(1, np.float32),
        half=np.array(0.5, np.float32),
    )
    rows, others = {"x": gaussian_array(COUNT, 16, seed=3)}, {"x": gaussian_array(8, 16, seed=4)}
    stats = ptq.calibrate(network, rows, keep_samples=COUNT, threads=1)
    found = [
        ptq.quantize(network, given, stats=by, eval_data=others, threads=1, target=target)
        for given, by in ((rows, None), (None, stats))
    ]
    assert found[0].graph.to_bytes() == found[1].graph.to_bytes()
    assert ("Gelu" in {node.op_type for node in found[0].graph.nodes}) == (target == "ort")


def test_a_size_keeps_as_many_samples_as_fit(model, data) -> None:
    stats = ptq.calibrate(model, data, keep_samples="7KB", threads=1)
    counted = ptq.calibrate(model, data, keep_samples=9, threads=1)  # 768 bytes each
    assert stats.kept is not None
    assert counted.kept is not None
    assert stats.kept.feeds.keys() == counted.kept.feeds.keys()


def samples_of_sizes(sizes: dict[int, int]) -> list[KeptSamples]:
    """One part for each sample: its digest's first byte, and its bytes; at most ten bytes may be kept."""
    parts = []
    for digest, size in sizes.items():
        keeper = SampleKeeper(KeepLimit(None, 10))
        keeper.add(bytes([digest]) * 32, str(digest), {"x": np.zeros(size, np.uint8)})
        parts.append(keeper.keep())
    return parts


@pytest.mark.parametrize(
    ("sizes", "kept"),
    [
        ({1: 5, 2: 100, 3: 1}, [1]),  # 3 would fit, but comes after one that does not
        ({1: 5, 2: 5, 3: 1}, [1, 2]),
        ({1: 11, 2: 1}, []),
        ({1: 4, 2: 4, 3: 4, 4: 2}, [1, 2]),
        ({1: 3, 2: 3, 3: 3, 4: 2}, [1, 2, 3]),
    ],
)
def test_a_size_keeps_the_same_of_samples_of_several_sizes_in_any_order(
    sizes: dict[int, int], kept: list[int]
) -> None:
    for order in permutations(samples_of_sizes(sizes)):
        merged = reduce(KeptSamples.merge, order)
        assert [int(name) for _, name in merged.feeds] == kept
        whole = SampleKeeper(KeepLimit(None, 10))
        for part in order:
            for (digest, name), feed in part.feeds.items():
                whole.add(digest, name, feed)
            whole.refuse(part.refused)
        assert whole.keep().feeds.keys() == merged.feeds.keys()
        again = KeptSamples.from_arrays(merged.to_arrays())
        assert (again.limit, again.refused) == (merged.limit, merged.refused)


def test_a_stream_of_samples_of_several_sizes_keeps_what_its_parts_keep() -> None:
    rng = np.random.default_rng(0)
    sizes = {digest: int(rng.integers(1, 6)) for digest in range(9)}
    merged = reduce(KeptSamples.merge, samples_of_sizes(sizes))
    for _ in range(50):
        keeper = SampleKeeper(KeepLimit(None, 10))
        for digest in rng.permutation(9):
            feed = {"x": np.zeros(sizes[int(digest)], np.uint8)}
            keeper.add(bytes([digest]) * 32, str(digest), feed)
        assert keeper.keep().feeds.keys() == merged.feeds.keys()


@pytest.mark.parametrize("option", ["many", "-1", "5 apples", -1, 2.5, True])
def test_what_is_neither_a_number_nor_a_size_is_refused(model, data, option: object) -> None:
    with pytest.raises(ptq.PtqError, match="keep_samples"):
        ptq.calibrate(model, data, keep_samples=option, threads=1)


def test_without_kept_samples_the_report_names_what_is_missing(model, data) -> None:
    stats = ptq.calibrate(model, data, threads=1)
    assert stats.kept is None
    assert any(
        "without calibration samples" in line
        for line in quantize(model, stats=stats).report.changes
    )


def test_ranges_count_all_samples_where_the_model_stays_as_it_is(model, data) -> None:
    few = ptq.calibrate(model, data, keep_samples=10, threads=1)
    plain = ptq.calibrate(model, data, threads=1)
    options = {
        "equalize": False,
        "split_outliers": False,
        "method": "minmax",
        "rounding": "nearest",
    }
    mine, theirs = (quantize(model, stats=stats, **options) for stats in (few, plain))
    assert mine.plan.tensors == theirs.plan.tensors
    assert mine.report.calibration_samples == COUNT


def test_ranges_of_all_samples_are_not_given_up_for_those_of_a_few(model) -> None:
    sizes = np.exp(1.5 * gaussian_array(64, 1, 1, 1, seed=4)).astype(np.float32)
    x = gaussian_array(64, 3, 8, 8, seed=3) * sizes
    few = ptq.calibrate(model, {"x": x}, keep_samples=16, threads=1)
    result = quantize(model, stats=few)
    assert any(line.startswith("equalization: not applied (SQNR") for line in result.report.changes)
    assert result.report.calibration_samples == len(x)


def test_merged_shards_keep_the_samples_of_the_whole_in_any_order(
    model, data, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number, row in enumerate(data["x"]):
        np.savez(folder / f"{number}.npz", x=row[None])
    whole = ptq.calibrate(model, folder, keep_samples=7, threads=1)
    shards = [
        ptq.calibrate(model, folder, shard=(k, 3), keep_samples=7, threads=1) for k in range(3)
    ]
    for order in permutations(shards):
        merged = reduce(Calibration.merge, order)
        assert merged.kept is not None
        assert whole.kept is not None
        assert merged.kept.feeds.keys() == whole.kept.feeds.keys()
        assert merged.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("keep", [5, "7KB"])
def test_workers_keep_the_same_samples(model, data, tmp_path: Path, keep: int | str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    np.savez(tmp_path / "data.npz", **data)
    onnx.save(model, tmp_path / "model.onnx")
    paths = tmp_path / "model.onnx", str(tmp_path / "data.npz")
    alone = ptq.calibrate(*paths, keep_samples=keep, threads=1)
    with ThreadPoolExecutor(2) as pool:
        shared = ptq.calibrate(*paths, keep_samples=keep, threads=1, cluster=pool)
    assert shared.to_bytes() == alone.to_bytes()


def test_a_checkpoint_that_is_continued_keeps_the_same_samples(model, data, tmp_path: Path) -> None:
    state = tmp_path / "state.npz"
    first = {"x": data["x"][:10]}
    ptq.calibrate(model, first, checkpoint=state, keep_samples=5, threads=1)
    continued = ptq.calibrate(model, data, checkpoint=state, keep_samples=5, threads=1)
    assert continued.to_bytes() == ptq.calibrate(model, data, keep_samples=5, threads=1).to_bytes()


def test_a_damaged_sample_is_refused(model, data) -> None:
    stats = ptq.calibrate(model, data, keep_samples=3, threads=1)
    content = stats.to_bytes().replace(b"kept/digests", b"kept/digestz")
    with pytest.raises(StatsError, match="damaged"):
        from_bytes(content, "stats")


def test_a_plan_decides_everything_itself(model, data) -> None:
    stats = ptq.calibrate(model, data, keep_samples=100, threads=1)
    plan = quantize(model, data).plan
    assert quantize(model, data, plan=plan).plan.tensors == plan.tensors
    with pytest.raises(
        ptq.PtqError
    ):  # the plan is for the equalized model, the statistics for the plain one
        quantize(model, stats=stats, plan=plan)
