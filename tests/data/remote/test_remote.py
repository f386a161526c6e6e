"""URLs without a server: how they differ from paths, how they are shown, and a store in memory."""

from __future__ import annotations

import tarfile
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from brightness import brightness_model, write_brightness_images

import ptq
from ptq.core import files, remote
from ptq.core.errors import DataError, PtqError
from ptq.data.list_objects import StoredObject
from ptq.data.places import expand_braces, find_shards, has_pattern, match_files
from ptq.data.trees import url_tree
from ptq.model.open import read_tflite_content

PREPROCESS = ptq.Preprocess(mean=(0.2,), std=(0.25,))


@pytest.mark.parametrize(
    "url", ["s3://b/x", "gs://b/x", "az://c/x", "hf://datasets/a/b", "memory://a"]
)
def test_a_url_is_known_as_a_text_and_as_a_path(url: str) -> None:
    assert remote.as_url(url) == remote.as_url(Path(url)) == url


def test_a_folder_that_is_named_as_a_scheme_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert remote.as_url(Path("s3://b/x")) == "s3://b/x"
    Path("s3:").mkdir()
    assert remote.as_url(Path("s3:/b/x")) is None
    assert remote.as_url("s3://b/x") == "s3://b/x"


@pytest.mark.parametrize("text", ["data", "/data/x", "C:/x", "a.b:c", "model:feeds", "ftp://x/y"])
def test_other_texts_are_no_urls(text: str) -> None:
    assert remote.as_url(text) is None


def test_user_password_query_and_secrets_of_the_environment_are_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_STORE_TOKEN", "abcdef123456")
    assert remote.redact("https://me:pass@host/x.npz?sig=1&b=2") == "https://host/x.npz"
    assert remote.redact(Path("az://c/x?sv=1")) == "az://c/x"
    assert remote.redact("https://host/of all/a b.npz?sig=1&b=2") == "https://host/of all/a b.npz"
    shown = remote.redact("denied for abcdef123456 at s3://key@b/x?v=1 see http://b/y?z")
    assert shown == "denied for … at s3://b/x see http://b/y"


@pytest.mark.parametrize(
    "password", ["p@ss", "p/ss", "p/s@s", "1?p", "12p/ss", "p#ss", "p@s/s", "p s", "1,2"]
)
def test_no_sign_in_a_password_shows_a_part_of_it(password: str) -> None:
    assert remote.redact(f"https://me:{password}@host/x.npz") == "https://host/x.npz"
    assert remote.redact(f"HTTPS://me:{password}@host:80/x.npz") == "https://host:80/x.npz"
    assert remote.redact(f"http://me@home:{password}@host/x.npz") == "http://host/x.npz"
    two = f"{{http://me:{password}@host/a.tar,http://me:{password}@host/b.tar?s=1,http://h/c}}"
    assert remote.redact(two) == "{http://host/a.tar,http://host/b.tar,http://h/c}"


def test_the_scheme_of_a_url_may_have_capital_letters() -> None:
    assert remote.as_url("HTTP://host/X.npz") == "http://host/X.npz"
    for start in ("HTTPS://host", "Https:/host"):
        assert not has_pattern(f"{start}/X.npz?sig=a")
        assert remote.get_path(f"{start}/a%20b.npz?sig=a") == f"{start}/a b.npz"
        assert find_shards(f"{start}/X.tar?sig=a") == ["https://host/X.tar?sig=a"]
        places = f"{{{start}/X.tar?sig=a,https://host/Y.tar}}"
        assert find_shards(places) == ["https://host/X.tar?sig=a", "https://host/Y.tar"]


@pytest.mark.parametrize(
    "text",
    [
        "s3://b/c#d.png: not an image",
        "gs://b/img??.png: no objects",
        "http://host:8080/icon@2x.png",
        "http://[::1]:80/icon@2x.png",
        "hf://datasets/user/name@main/x:y@z.npz",
        "s3://arn:aws:s3:us-west-2:1234:accesspoint/ap/icon@2x.png",
        "http://host:8080: refused, see a@b",
        "tcp://host:8786, tcp://other:8786",
    ],
)
def test_signs_in_the_names_of_objects_are_shown(text: str) -> None:
    assert remote.redact(text) == text


def test_a_tflite_file_at_a_signed_url_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "read", lambda _: b"content")
    assert read_tflite_content("https://host/m.tflite?X-Signature=a.b") == b"content"
    assert read_tflite_content("https://host/m.onnx?name=m.tflite") is None


def test_braces_stand_for_places() -> None:
    assert expand_braces("d-{008..010}.tar") == ["d-008.tar", "d-009.tar", "d-010.tar"]
    assert expand_braces("{a,b}/{1..2}") == ["a/1", "a/2", "b/1", "b/2"]
    assert expand_braces("no{brace}") == ["no{brace}"]
    for wrong in ("{3..1}", "{0..100000000}", "{1..99999}{1..99999}"):
        with pytest.raises(PtqError, match="stands for no place, or for more than"):
            expand_braces(wrong)


def test_a_pattern_selects_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    for name in ("b/0.npz", "b/1.npz", "b/c/2.npz"):
        np.savez(tmp_path / name, x=np.ones((1, 2), np.float32))
        with tarfile.open(tmp_path / f"{name}.tar", "w") as archive:
            archive.add(tmp_path / name, "0.npz")
    (tmp_path / "a").symlink_to("b")
    spec = ptq.data.InputSpec("x", np.dtype(np.float32), (1, 2))

    def select(pattern: str) -> list[str]:
        return list(ptq.open_samples(f"{tmp_path}/{pattern}", [spec]).names)

    assert select("*/*.npz") == ["b/0.npz", "b/1.npz"]
    assert select("**/**/*.npz") == ["b/0.npz", "b/1.npz", "b/c/2.npz"]
    assert select("a/*.npz") == ["0.npz", "1.npz"]
    assert len(select("*/*.tar")) == 2
    assert len(select("**/**/*.tar")) == 3
    (tmp_path / "b" / "loop").symlink_to(tmp_path / "b")
    assert select("b/**/*.npz") == ["0.npz", "1.npz", "c/2.npz"]


def test_a_pattern_asks_for_links_once_for_each_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for k in range(20):
            (tmp_path / folder / f"{k}.png").touch()
    asked, is_symlink = [], Path.is_symlink
    monkeypatch.setattr(Path, "is_symlink", lambda path: asked.append(path) or is_symlink(path))
    assert len(match_files(f"{tmp_path}/*/*.png")[1]) == 40
    assert sorted(path.name for path in asked) == ["a", "b", *[tmp_path.name] * 2]


def test_a_pattern_of_this_machine_selects_files(tmp_path: Path) -> None:
    onnx.save(brightness_model(), tmp_path / "model.onnx")
    images = write_brightness_images(tmp_path / "images")
    some = ptq.calibrate(
        tmp_path / "model.onnx", f"{images}/*/0*.png", preprocess=PREPROCESS, threads=1
    )
    assert some.samples == 10
    with pytest.raises(DataError, match="there is no such file"):
        ptq.calibrate(tmp_path / "model.onnx", f"{images}/*/7*.png", preprocess=PREPROCESS)


@pytest.fixture
def memory() -> str:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    return "memory://data"


def fill(folder: Path, url: str) -> None:
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        remote.write(f"{url}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def test_a_store_in_memory_gives_the_bytes_of_a_folder(memory: str, tmp_path: Path) -> None:
    images = write_brightness_images(tmp_path / "images")
    fill(images, memory)
    one, other = (
        ptq.calibrate(brightness_model(), data, preprocess=PREPROCESS, threads=1)
        for data in (images, memory)
    )
    assert one.to_bytes() == other.to_bytes()


def test_feeds_audio_and_texts_are_fetched_too(memory: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", x=rng.normal(size=(1, 3, 8, 8)).astype(np.float32))
    fill(tmp_path, memory)
    one, other = (ptq.calibrate(brightness_model(), d, threads=1) for d in (tmp_path, memory))
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("name", ["../outside.png", "a/../../x.png"])
def test_a_name_that_leads_out_of_the_data_is_refused(
    memory: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(url_tree, "list_objects", lambda url: {name: StoredObject("memory://x", 3)})
    with pytest.raises(DataError, match="leads out of the data; rename it"):
        ptq.calibrate(brightness_model(), memory, preprocess=PREPROCESS)


def test_a_name_that_no_file_can_have_is_a_bad_sample(memory: str, tmp_path: Path) -> None:
    images = write_brightness_images(tmp_path / "images")
    fill(images, memory)
    name = f"0_dark/{'x' * 300}.png"
    remote.write(f"{memory}/{name}", next(images.rglob("*.png")).read_bytes())
    with pytest.raises(DataError, match=rf"^{memory}/{name}: its name is too long"):
        ptq.calibrate(brightness_model(), f"{memory}/", preprocess=PREPROCESS, threads=1)
    found = ptq.calibrate(
        brightness_model(), memory, preprocess=PREPROCESS, threads=1, skip_bad_samples=True
    )
    assert found.samples == 24
    assert [skipped for skipped, _ in found.skipped] == [name]


@pytest.mark.parametrize(
    "cause", [None, ConnectionRefusedError(111, "refused")], ids=["timeout", "refused"]
)
def test_a_store_that_keeps_an_attempt_waiting_is_not_asked_again(
    monkeypatch, cause: Exception | None
) -> None:
    monkeypatch.setattr(remote, "LONG_TIMEOUT", 0.01)
    asked = []

    def wait() -> None:
        asked.append(time.sleep(0.02))
        if cause is None:
            raise TimeoutError("no answer")
        raise RuntimeError("no answer") from cause  # the package of Azure has a class of its own

    with pytest.raises(OSError, match=r"no answer \(after 0 s\)"):
        remote.run_with_retries("s3://b/x", wait)
    assert len(asked) == 1


def test_a_long_transfer_that_is_cut_is_tried_again(monkeypatch) -> None:
    monkeypatch.setattr(remote, "LONG_TIMEOUT", 0.01)
    monkeypatch.setattr(remote, "PAUSES", (0.0,))

    def cut() -> None:
        time.sleep(0.02)
        raise OSError("truncated")

    with pytest.raises(OSError, match=r"truncated \(2 attempts\)"):
        remote.run_with_retries("s3://b/x", cut)


def test_a_full_disk_is_one_line(memory: str, tmp_path: Path, monkeypatch) -> None:
    fill(write_brightness_images(tmp_path / "images"), memory)

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DataError, match="No space left on device; free space there, or name"):
        ptq.calibrate(brightness_model(), memory, preprocess=PREPROCESS, threads=1)


def test_a_damaged_shard_in_a_store_is_refused_as_one_on_this_machine(
    memory: str, monkeypatch
) -> None:
    monkeypatch.setattr(remote, "PAUSES", (0.0,))
    remote.write(f"{memory}/data.tar", b"damaged")
    reason = (
        r"data\.tar: not an uncompressed tar file, or truncated \(truncated header\) \(2 attempts\)"
    )
    with pytest.raises(DataError, match=reason):
        ptq.calibrate(brightness_model(), f"{memory}/data.tar", preprocess=PREPROCESS, threads=1)


def test_a_folder_in_a_store_with_shards_of_two_kinds_is_refused(memory: str) -> None:
    for name in ("data.tar", "data.parquet"):
        remote.write(f"{memory}/{name}", b"any")
    with pytest.raises(DataError, match=r"holds both \.tar and \.parquet files; name one kind"):
        ptq.calibrate(brightness_model(), memory, preprocess=PREPROCESS, threads=1)


def test_an_object_is_written_whole_or_not_at_all(memory: str, monkeypatch) -> None:
    import fsspec

    monkeypatch.setattr(remote, "PAUSES", (0.0,))
    files.write(Path(f"{memory}/a"), [b"one", b"two"])
    assert remote.read(f"{memory}/a") == b"onetwo"
    assert files.read(Path(f"{memory}/a")) == b"onetwo"
    store = fsspec.filesystem("memory")
    monkeypatch.setattr(type(store), "pipe_file", lambda *_: (_ for _ in ()).throw(OSError("slow")))
    with pytest.raises(PtqError, match=r"^memory://data/b cannot be written: slow \(2 attempts\)"):
        files.write(Path(f"{memory}/b"), b"x")
    assert not files.has_file(Path(f"{memory}/b"))


def test_fetched_files_leave_nothing_behind(memory: str, tmp_path: Path, monkeypatch) -> None:
    fill(write_brightness_images(tmp_path / "images"), memory)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    ptq.calibrate(brightness_model(), memory, preprocess=PREPROCESS, threads=1)
    assert list((tmp_path / "temporary").iterdir()) == []
