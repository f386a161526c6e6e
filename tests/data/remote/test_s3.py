"""Samples, statistics and outputs in a real S3 server on loopback; the same from a folder is the oracle."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from brightness import OPTIONS, brightness_model, write_brightness_images
from cluster import run_dask
from command_line import FAST, call
from object_store import (
    BUCKET,
    SECRET,
    download,
    point_to,
    run_proxy,
    run_store,
    upload,
)

import ptq
from ptq.core import files, remote
from ptq.core.errors import DataError, PtqError, StatsError, UsageError

pytestmark = pytest.mark.remote

PREPROCESS = ptq.Preprocess(mean=(0.2,), std=(0.25,))


@pytest.fixture(scope="module")
def store() -> Iterator[int]:
    with run_store() as port:
        yield port


@pytest.fixture
def place(store: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL of the images in the folder ``images``; the current folder also has ``model.onnx``."""
    point_to(monkeypatch, store)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(remote, "PAUSES", (0.01, 0.02, 0.04))
    onnx.save(brightness_model(), "model.onnx")
    write_brightness_images(tmp_path / "images")
    return upload(tmp_path / "images", tmp_path.name)


def calibrate(data: str, **options: object) -> ptq.Calibration:
    return ptq.calibrate("model.onnx", data, preprocess=PREPROCESS, threads=1, **options)


def test_images_of_a_bucket_give_the_bytes_of_a_folder(place: str) -> None:
    assert calibrate(place).to_bytes() == calibrate("images").to_bytes()


def test_a_pattern_selects_objects(place: str) -> None:
    some = calibrate(f"{place}/1_light/*[02468].png")
    assert 0 < some.samples < 24
    assert some.to_bytes() == calibrate("images/1_light/*[02468].png").to_bytes()


def test_labels_are_those_of_the_class_folders(place: str) -> None:
    specs = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))]
    bucket, folder = (ptq.open_samples(data, specs, PREPROCESS) for data in (place, "images"))
    assert [s.labels for s in bucket] == [s.labels for s in folder]
    assert bucket.classes == folder.classes == ("0_dark", "1_light")


def test_a_labels_file_and_class_names_of_a_bucket_are_read(store: int, place: str) -> None:
    Path("flat").mkdir()
    rows = ["path,label"]
    for path in sorted(Path("images").rglob("*.png")):
        (Path("flat") / path.name).write_bytes(path.read_bytes())
        rows.append(f"{path.name},{path.parent.name}")
    Path("flat/labels.csv").write_text("\n".join(rows) + "\n")
    Path("flat/classes.txt").write_text("0_dark\n1_light\n")
    flat = upload(Path("flat"), f"{Path.cwd().name}-flat")
    specs = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))]
    found, expected = (
        [sample.labels for sample in ptq.open_samples(data, specs, PREPROCESS)]
        for data in (flat, "flat")
    )
    assert found == expected
    assert set(found) == {(0,), (1,)}


def test_rows_of_a_file_in_a_bucket(store: int, place: str) -> None:
    Path("rows").mkdir()
    x = np.random.default_rng(0).normal(size=(12, 3, 8, 8)).astype(np.float32)
    np.savez("rows/x.npz", x=x)
    np.save("rows/x.npy", x)
    url = upload(Path("rows"), f"{Path.cwd().name}-rows")
    local = ptq.calibrate("model.onnx", "rows/x.npz", threads=1).to_bytes()
    assert ptq.calibrate("model.onnx", f"{url}/x.npz", threads=1).to_bytes() == local
    assert ptq.calibrate("model.onnx", f"{url}/x.npy", threads=1).to_bytes() == local


def test_two_workers_read_the_bucket_themselves(place: str) -> None:
    assert calibrate(place, workers=2).to_bytes() == calibrate("images").to_bytes()


def test_a_dask_cluster_reads_the_bucket_itself(place: str, tmp_path: Path) -> None:
    expected = calibrate("images").to_bytes()
    with run_dask(tmp_path, 2) as dask:
        assert calibrate(place, cluster=dask.address).to_bytes() == expected
        write_shard(tmp_path / "images", tmp_path / "shard.tar")
        shard = f"s3://{BUCKET}/{tmp_path.name}.tar"
        remote.write(shard, Path("shard.tar").read_bytes())
        assert calibrate(shard, cluster=dask.address).to_bytes() == expected


def write_shard(images: Path, place: Path) -> None:
    with tarfile.open(place, "w") as shard:
        for path in sorted(images.rglob("*.png")):
            shard.add(path, path.relative_to(images).as_posix())


def test_a_checkpoint_may_be_an_object(store: int, place: str) -> None:
    state = f"s3://{BUCKET}/{Path.cwd().name}.state"
    whole = calibrate(place, checkpoint=state).to_bytes()
    assert download(state)
    assert calibrate(place, checkpoint=state).to_bytes() == whole


def test_outputs_of_the_command_line_are_objects(store: int, place: str) -> None:
    out = f"s3://{BUCKET}/{Path.cwd().name}-out"
    stats = ["--data", place, *OPTIONS, "--threads", 1, "-o", f"{out}/s.npz"]
    code, printed = call("calibrate", "model.onnx", *stats, "--json", f"{out}/s.json")
    assert code == 0, printed
    document = download(f"{out}/s.json")
    assert json.loads(document)["output"] == f"{out}/s.npz"
    assert json.loads(document)["options"]["data"] == place
    given = ["--stats", f"{out}/s.npz", "--eval", place, *FAST, "--force"]
    made = ["-o", f"{out}/q.onnx", "--report", f"{out}/q.html", "--save-plan", f"{out}/q.json"]
    code, printed = call("quantize", "model.onnx", *given, *made)
    assert code == 0, printed
    assert f"Written: {out}/q.onnx" in printed
    for name in ("q.onnx", "q.html", "q.json"):
        assert download(f"{out}/{name}")
    code, printed = call("evaluate", f"{out}/q.onnx", "--data", place)
    assert code == 0, printed
    code, printed = call("calibrate", "model.onnx", *stats, "--no-clobber")
    assert code == 2
    assert f"output {out}/s.npz exists and --no-clobber is set" in printed


@pytest.mark.parametrize("option", ["-o", "--save-plan", "--json", "--report"])
def test_a_bucket_that_does_not_exist_is_refused_before_long_work(place: str, option: str) -> None:
    given = ["--data", place, *OPTIONS, *FAST, "-o", "q.onnx", option, "s3://no-such-bucket/q.json"]
    code, printed = call("quantize", "model.onnx", *given)
    assert code == 2
    assert printed.count("\n") == 1
    assert "output s3://no-such-bucket/q.json: there is no 'no-such-bucket' in the store" in printed
    assert "; create it first, or choose another place" in printed
    assert not Path("q.onnx").exists()


def test_what_a_bucket_refuses_is_kept_in_the_current_folder(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Oracle: the same outputs in files. The result of long work is not lost, and no file is replaced."""
    monkeypatch.setattr(files, "check_bucket", lambda _: None)  # it is removed after the check
    given = ["model.onnx", "--data", place, *OPTIONS, "--threads", 1]
    Path("made").mkdir()
    both = ["-o", "made/q.onnx", "--save-plan", "made/q.json"]
    assert call("quantize", *given, *FAST, "--force", *both)[0] == 0
    Path("q.onnx").write_bytes(b"mine")
    refused = "s3://no-such-bucket/q.onnx"
    code, printed = call("quantize", *given, *FAST, "--force", "-o", refused)
    assert code == 1
    assert f"error: {refused} cannot be written: " in printed
    assert "; choose another place; the output is kept as q.1.onnx\n" in printed
    assert Path("q.1.onnx").read_bytes() == Path("made/q.onnx").read_bytes()
    assert Path("q.onnx").read_bytes() == b"mine"
    plan = ["-o", "q.2.onnx", "--save-plan", "s3://no-such-bucket/q.json"]
    code, printed = call("quantize", *given, *FAST, "--force", *plan)
    assert code == 1
    assert "the output is kept as q.json\n" in printed
    assert Path("q.json").read_bytes() == Path("made/q.json").read_bytes()


def test_no_output_holds_a_url_or_a_secret(store: int, place: str) -> None:
    calibrate(place).save("s.npz")
    code, printed = call(
        "quantize", "model.onnx", "--data", place, *OPTIONS, *FAST, "--force",
        "-o", "q.onnx", "--save-plan", "p.json", "--json", "q.json", "-vv",
    )  # fmt: skip
    assert code == 0, printed
    for name in ("s.npz", "q.onnx", "p.json"):
        content = Path(name).read_bytes()
        assert BUCKET.encode() not in content
        assert b"127.0.0.1" not in content
    for text in (printed, Path("q.json").read_text()):
        assert SECRET not in text


@pytest.mark.parametrize("fault", ["fail", "cut"])
def test_a_bucket_that_fails_at_first_is_asked_again(
    store: int, place: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    expected = calibrate("images").to_bytes()
    with run_proxy(store, lambda _, count: fault if count == 1 else None) as proxy:
        point_to(monkeypatch, proxy.port)
        assert calibrate(place).to_bytes() == expected
        assert min(proxy.requests.values()) >= 2


def test_a_slow_bucket_gives_the_same_bytes(
    store: int, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = calibrate("images").to_bytes()
    with run_proxy(store, lambda path, _: "wait" if "07.png" in path else None) as proxy:
        point_to(monkeypatch, proxy.port)
        assert calibrate(place).to_bytes() == expected


@pytest.mark.parametrize("fault", ["fail", "cut"])
def test_an_object_that_always_fails_is_one_line_with_its_url(
    store: int, place: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    with run_proxy(store, lambda path, _: fault if "07.png" in path else None) as proxy:
        point_to(monkeypatch, proxy.port)
        with pytest.raises(DataError, match=r"07\.png: cannot be read: .*\(4 attempts\)") as caught:
            calibrate(place)
        assert str(caught.value).startswith(place)
        assert "\n" not in str(caught.value)
        skipped = calibrate(place, skip_bad_samples=True)
        assert [name for name, _ in skipped.skipped] == ["0_dark/07.png"] or [
            name for name, _ in skipped.skipped
        ] == ["1_light/07.png"]
        assert skipped.samples == 23


def test_an_object_that_shrinks_after_the_listing_is_refused(store: int, place: str) -> None:
    specs = [ptq.data.InputSpec("x", np.dtype(np.float32), (None, 3, 8, 8))]
    samples = ptq.open_samples(place, specs, PREPROCESS)
    Path("short/0_dark").mkdir(parents=True)
    Path("short/0_dark/00.png").write_bytes(Path("images/0_dark/00.png").read_bytes()[:40])
    upload(Path("short"), Path.cwd().name)
    with pytest.raises(DataError, match=r"00\.png: cannot be read: truncated: 40 of \d+ bytes"):
        list(samples)


def test_a_damaged_image_is_named_by_its_url(store: int, place: str) -> None:
    Path("bad/0_dark").mkdir(parents=True)
    Path("bad/0_dark/00.png").write_bytes(b"no image")
    upload(Path("bad"), Path.cwd().name)
    with pytest.raises(DataError, match=rf"^{place}/0_dark/00\.png: not an image"):
        calibrate(place)


def test_what_does_not_exist_is_one_line(place: str) -> None:
    with pytest.raises(DataError, match="there are no objects; check the URL"):
        calibrate(f"{place}-none")
    with pytest.raises(DataError, match="cannot list the data: No such file"):
        calibrate("s3://no-such-bucket/images")
    with pytest.raises(DataError, match=r"x\.npz: cannot open the data: No such file"):
        calibrate(f"s3://{BUCKET}/x.npz")
    with pytest.raises(StatsError, match=r"^s3://.*/x\.npz: cannot be read \(No such file"):
        ptq.Calibration.load(f"s3://{BUCKET}/x.npz")
    with pytest.raises(PtqError, match=r"^s3://no-such-bucket/s\.npz cannot be written"):
        calibrate(place).save("s3://no-such-bucket/s.npz")


def test_missing_credentials_are_one_line(
    place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(DataError, match="locate credentials") as caught:
        calibrate(place)
    assert "\n" not in str(caught.value)


def test_a_missing_package_is_one_line_with_the_command(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(url: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(UsageError, match=r'not installed; pip install "onnx-ptq\[s3\]"$'):
        calibrate(place)
    code, printed = call("calibrate", "model.onnx", "--data", "images", "-o", "s3://b/s.npz")
    assert code == 2
    assert printed.count("\n") == 1
