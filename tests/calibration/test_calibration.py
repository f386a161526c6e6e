"""Statistics gathered in parts and by several processes; those of the same samples at one go are the oracle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks import build_network, gaussian_array, random_feeds
from parts import CONV, WB
from waiting_pool import start_at_once

import ptq
from ptq.calibration.calibration import FOLDS, HALF, collect_in_folds
from ptq.core.errors import DataError, StatsError, UsageError
from ptq.core.run_options import RunOptions
from ptq.data import Samples
from ptq.data.splits import SampleOptions
from ptq.model.graph import Graph
from ptq.observers.channel_sums import ChannelSums
from ptq.rewrite.prepare.prepare import prepare

MODEL = build_network(CONV + "y = Relu(c)", {"x": ("n", 3, 8, 8)}, **WB)
FEEDS = random_feeds(MODEL, 5)


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, Path]:
    """A model and a folder of samples."""
    onnx.save(MODEL, tmp_path / "model.onnx")
    (tmp_path / "data").mkdir()
    for number, feed in enumerate(FEEDS):
        np.savez(tmp_path / "data" / f"{number}.npz", **feed)
    return tmp_path / "model.onnx", tmp_path / "data"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers start without delay, and the first stage waits for them."""
    start_at_once(monkeypatch)


def test_two_workers_count_what_one_counts_and_skip_what_one_skips(
    given: tuple[Path, Path],
) -> None:
    model, data = given
    (data / "1.npz").write_bytes(b"")
    said: list[tuple[str, int]] = []
    one = ptq.calibrate(model, data, skip_bad_samples=True, threads=1)
    told = []

    def progress(stage: str, total: int) -> object:
        said.append((stage, total))
        return lambda: told.append(1)

    two = ptq.calibrate(model, data, workers=2, skip_bad_samples=True, threads=1, progress=progress)
    assert two.to_bytes() == one.to_bytes()
    assert [name for name, _ in one.skipped] == ["1.npz"]
    assert two.skipped == one.skipped
    assert said == [("calibrating", 5)]
    assert len(told) == 4


def test_the_error_of_a_worker_is_that_of_one_process(given: tuple[Path, Path]) -> None:
    model, data = given
    (data / "3.npz").write_bytes(b"")
    with pytest.raises(DataError, match=r"3\.npz"):
        ptq.calibrate(model, data, workers=2, threads=1)


def test_workers_need_arguments_that_can_be_sent_to_them(given: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="need paths"):
        ptq.calibrate(MODEL, given[1], workers=2)
    with pytest.raises(UsageError, match="memory limits one process"):
        ptq.calibrate(*given, workers=2, memory="1GB")


@pytest.mark.parametrize("shuffled", [False, True])
def test_s3_a_callable_gives_all_workers_the_same_samples(
    given: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, shuffled: bool
) -> None:
    model, _ = given
    order = "np.random.default_rng().permutation(12)" if shuffled else "range(12)"
    module = f"loader_{shuffled}"  # Python keeps imported modules
    (model.parent / f"{module}.py").write_text(
        "import numpy as np\n"
        "ROWS = np.random.default_rng(0).normal(size=(12, 1, 3, 8, 8)).astype(np.float32)\n"
        f"feeds = lambda: ({{'x': ROWS[k]}} for k in {order})\n"
    )
    monkeypatch.chdir(model.parent)
    data = f"{module}:feeds"
    if shuffled:
        with pytest.raises(DataError, match=r"other samples in each process; .* or use one worker"):
            ptq.calibrate(model, data, workers=2, threads=1)
    else:
        one = ptq.calibrate(model, data, threads=1)
        assert ptq.calibrate(model, data, workers=2, threads=1).to_bytes() == one.to_bytes()


MANY = {"x": gaussian_array(4 * FOLDS + 1, 3, 8, 8)}


def opened(data: object) -> tuple[Graph, Samples]:
    graph = prepare(Graph.from_proto(MODEL)).graph
    return graph, SampleOptions(skip_bad=True).open(data, graph)


def test_each_fold_is_evaluated_with_ranges_of_the_other_half() -> None:
    graph, samples = opened(MANY)
    whole, folds = collect_in_folds(graph, samples, run=RunOptions(threads=1))
    assert whole.to_bytes() == ptq.calibrate(MODEL, MANY, threads=1).to_bytes()
    assert len(folds) == FOLDS
    evaluating = [name for fold in folds for name in fold.samples.names]
    assert sorted(evaluating) == sorted(samples.names)
    for index, fold in enumerate(folds):
        half = folds[:HALF] if index < HALF else folds[HALF:]
        own = {name for of in half for name in of.samples.names}
        others = [i for i, name in enumerate(samples.names) if name not in own]
        expected = ptq.calibrate(MODEL, {"x": MANY["x"][others]}, threads=1)
        assert fold.calibration.to_bytes() == replace(expected, identity=None).to_bytes()


def test_few_samples_are_one_fold() -> None:
    graph, samples = opened({"x": MANY["x"][: 2 * FOLDS - 1]})
    whole, (fold,) = collect_in_folds(graph, samples, run=RunOptions(threads=1))
    assert fold.calibration is whole
    assert fold.samples is samples


@pytest.mark.parametrize("left", [1, FOLDS - 1])
def test_bad_samples_do_not_evaluate(tmp_path: Path, left: int) -> None:
    """All are bad but those of some folds, less one."""
    for number, x in enumerate(MANY["x"]):
        np.savez(tmp_path / f"{number}.npz", x=x[None])
    graph, samples = opened(tmp_path)
    good = [
        fold.samples.names
        for fold in collect_in_folds(graph, samples, run=RunOptions(threads=1))[1]
    ][:left]
    for number in range(len(samples)):
        if not any(f"{number}.npz" in names[1:] for names in good):
            (tmp_path / f"{number}.npz").write_bytes(b"")
    graph, samples = opened(tmp_path)
    whole, folds = collect_in_folds(graph, samples, run=RunOptions(threads=1))
    assert whole.samples == sum(map(len, good)) - left
    assert len(whole.skipped) == len(samples) - whole.samples
    if left == 1:
        assert [(fold.calibration, len(fold.samples)) for fold in folds] == [(whole, whole.samples)]
    else:
        assert [fold.samples.names for fold in folds] == [names[1:] for names in good]


def test_statistics_with_another_number_of_channels_are_refused() -> None:
    stats = ptq.calibrate(MODEL, FEEDS, threads=1)
    name, sums = next(iter(stats.channels.items()))
    arrays = sums.to_arrays()
    cut = ChannelSums.from_arrays({**arrays, "sums": arrays["sums"][:, :2]})
    edited = replace(stats, channels={**stats.channels, name: cut})
    with pytest.raises(StatsError, match="has 2 channels in the statistics and 3 in the model"):
        ptq.quantize(MODEL, stats=edited, force=True)
