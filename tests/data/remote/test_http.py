"""A model and data on a web server of this machine (Python's own); the same from a folder is the oracle."""

from __future__ import annotations

import html
import io
import os
import re
import shutil
import tarfile
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import onnx
import pytest
from brightness import brightness_model, write_brightness_images
from object_store import free_port
from ptq_cli.main import app
from ptq_cli.process import run

import ptq
from ptq.core import remote
from ptq.core.errors import DataError, PtqError, UsageError
from ptq.data import InputSpec

PREPROCESS = ptq.Preprocess(mean=(0.2,), std=(0.25,))


class WholeFiles(SimpleHTTPRequestHandler):
    """Serves a folder and lists it as HTML."""

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


class Parts(WholeFiles):
    """Serves parts of a file too, as most web servers do."""

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        path = Path(self.translate_path(self.path))
        if asked is None or not path.is_file():
            super().do_GET()
            return
        first, last = map(int, asked.groups())
        content = path.read_bytes()
        part = content[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)


class Apache(Parts):
    """Lists a folder as Apache does: with links to itself in other orders, and to the folder above."""

    def list_directory(self, path: str | os.PathLike[str]) -> io.BytesIO:
        links = ["?C=N;O=D", "?C=M;O=A", "?C=S;O=A", str(Path(self.path).parent)]
        for found in sorted(Path(path).iterdir()):
            quoted = urllib.parse.quote(found.name, safe="&!'()*,;:@$+=")
            links.append(html.escape(quoted) + "/" * found.is_dir())
        page = "".join(f'<tr><td><a href="{link}">name</a></td></tr>' for link in links).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html;charset=UTF-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        return io.BytesIO(page)


@contextmanager
def serve(folder: Path, handler: type[WholeFiles]) -> Iterator[str]:
    """Serve a folder in threads of this process; its URL."""
    pytest.importorskip("aiohttp", reason="aiohttp is an extra: remote")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds model.onnx, images/, shard.tar, x.npy and x.npz."""
    found = tmp_path_factory.mktemp("served")
    onnx.save(brightness_model(), found / "model.onnx")
    images = write_brightness_images(found / "images")
    with tarfile.open(found / "shard.tar", "w") as shard:
        for path in sorted(images.rglob("*.png")):
            shard.add(path, path.relative_to(images).as_posix())
    x = np.random.default_rng(0).normal(size=(12, 3, 8, 8)).astype(np.float32)
    np.save(found / "x.npy", x)
    np.savez(found / "x.npz", x=x)
    return found


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0, 0.0))


def calibrate(place: str | Path, data: str) -> bytes:
    preprocess = None if data.startswith("x.") else PREPROCESS
    found = ptq.calibrate(
        f"{place}/model.onnx", f"{place}/{data}", preprocess=preprocess, threads=1
    )
    return found.to_bytes()


@pytest.mark.parametrize("data", ["x.npy", "x.npz", "images", "images/*/*[02468].png"])
@pytest.mark.parametrize("handler", [WholeFiles, Parts])
def test_a_web_server_gives_the_bytes_of_a_folder(
    folder: Path, handler: type[WholeFiles], data: str
) -> None:
    with serve(folder, handler) as url:
        assert calibrate(url, data) == calibrate(folder, data)


@pytest.mark.parametrize("data", ["x.npy", "x.npz", "shard.tar"])
def test_a_signed_url_is_one_file_and_its_signature_is_in_no_message(
    folder: Path, data: str
) -> None:
    signature = "?X-Signature=a*b[c]%2Fd&Expires=9"
    preprocess = None if data.startswith("x.") else PREPROCESS

    class Signed(Parts):
        def do_GET(self) -> None:
            if not self.path.endswith(signature):
                self.send_error(403)
                return
            super().do_GET()

    with serve(folder, Signed) as url:
        found, model = (f"{url}/{name}{signature}" for name in (data, "model.onnx"))
        statistics = ptq.calibrate(model, found, preprocess=preprocess, threads=1)
        assert statistics.to_bytes() == calibrate(folder, data)
        with pytest.raises(DataError) as caught:
            ptq.calibrate(model, f"{url}/none.npz{signature}", threads=1)
    assert str(caught.value).startswith(f"{url}/none.npz")
    assert "Signature" not in str(caught.value)


def test_a_shard_is_read_in_parts(folder: Path) -> None:
    with serve(folder, Parts) as url:
        assert calibrate(url, "shard.tar") == calibrate(folder, "shard.tar")


def test_a_shard_on_a_server_of_whole_files_is_one_line(folder: Path) -> None:
    with serve(folder, WholeFiles) as url, pytest.raises(DataError) as caught:
        calibrate(url, "shard.tar")
    assert str(caught.value).startswith(f"{url}/shard.tar member 0_dark/")
    assert "the server sends whole files only; copy it to this machine" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_the_server_does_not_have_is_one_line(folder: Path) -> None:
    with serve(folder, Parts) as url:
        with pytest.raises(DataError, match=rf"^{url}/none\.npz: cannot open the data: No such"):
            calibrate(url, "none.npz")
        with pytest.raises(DataError, match=rf"^{url}/none: "):
            calibrate(url, "none")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, r"permission denied \(403, .*\)"),
        (401, r"permission denied \(401, .*\)"),
        (503, r"503, .*\(4 attempts\)"),
    ],
)
def test_a_server_that_refuses_is_one_line_with_its_answer(
    folder: Path, status: int, said: str
) -> None:
    class Refuses(WholeFiles):
        def do_GET(self) -> None:
            self.send_error(status)

        do_HEAD = do_GET  # noqa: N815 # a name of http.server

    with serve(folder, Refuses) as url:
        secret = url.replace("http://", "http://me:hidden@")
        with pytest.raises(DataError, match=f"cannot open the data: {said}") as caught:
            ptq.calibrate(folder / "model.onnx", f"{secret}/x.npz", threads=1)
        assert str(caught.value).startswith(f"{url}/x.npz: ")
        assert "hidden" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_server_that_does_not_answer_is_one_line_that_says_so(folder: Path) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is an extra: remote")
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(DataError, match=r"Connect call failed .*\(4 attempts\)") as caught:
        ptq.calibrate(folder / "model.onnx", f"{url}/x.npz", threads=1)
    assert str(caught.value).startswith(f"{url}/x.npz: ")
    assert "\n" not in str(caught.value)


class Circle(WholeFiles):
    """Redirects each file to itself."""

    def do_GET(self) -> None:
        self.send_response(301)
        self.send_header("Location", self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()


def test_a_redirection_without_end_is_one_line_after_one_attempt(folder: Path) -> None:
    with serve(folder, Circle) as url, pytest.raises(DataError) as caught:
        ptq.calibrate(folder / "model.onnx", f"{url}/x.npz", threads=1)
    reason = "cannot open the data: the server redirects in a circle"
    assert str(caught.value).removesuffix(" (ptq explain refused-data)") == f"{url}/x.npz: {reason}"


def test_a_server_that_takes_no_files_refuses_an_output_in_one_line(folder: Path) -> None:
    with serve(folder, Parts) as url:
        statistics = ptq.calibrate(folder / "model.onnx", folder / "x.npz", threads=1)
        with pytest.raises(PtqError, match=rf"^{url}/s\.npz cannot be written: 501") as caught:
            statistics.save(f"{url}/s.npz")
    assert "\n" not in str(caught.value)


def test_a_missing_package_is_one_line_with_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(UsageError, match=r'not installed; pip install "onnx-ptq\[remote\]"$'):
        ptq.calibrate(folder / "model.onnx", "http://127.0.0.1:9/x.npz", threads=1)


def test_models_at_urls_are_quantized_and_compared(folder: Path) -> None:
    options = {"preprocess": PREPROCESS, "threads": 1}
    with serve(folder, Parts) as url:
        model = f"{url}/model.onnx"
        made = ptq.quantize(model, folder / "images", effort="fast", force=True, **options)
        made.save(folder / "model.int8.onnx")
        found = ptq.compare(model, folder / "model.int8.onnx", folder / "images", **options)
    assert made.report.float_bytes > 0
    assert found.old_bytes > 0


@pytest.mark.parametrize(
    "command",
    [
        "inspect MODEL --json out.json",
        "evaluate MODEL --data DATA --json out.json --report page.html --summary out.md",
        "verify QUANTIZED --data DATA --json out.json --report page.html --summary out.md",
        "quantize MODEL --data DATA --json out.json --report page.html --save-plan plan.json --force",
    ],
)
def test_no_file_of_a_run_holds_what_signs_its_urls(
    folder: Path,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    made = ptq.quantize(folder / "model.onnx", folder / "x.npz", effort="fast", threads=1)
    made.save(folder / "model.q.onnx")
    with serve(folder, Parts) as url:
        signed = url.replace("//", "//user:SECRET@") + "/{}?v=1&X-Signature=SEC/RET.SECRET"
        names = {"MODEL": "model.onnx", "QUANTIZED": "model.q.onnx", "DATA": "x.npz"}
        words = [signed.format(names[w]) if w in names else w for w in command.split()]
        assert run(app, [*words]) == 0
    shown = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    shown["screen"] = "".join(capsys.readouterr()).encode()
    assert [
        name for name, content in shown.items() if b"SECRET" in content or b"SEC/" in content
    ] == []
    assert ("model.int8.onnx" in shown) == command.startswith("quantize")


def describe_samples(place: str | Path) -> list[tuple[object, ...]]:
    """Name, pixels and labels of each image, in order."""
    found = ptq.open_samples(place, [InputSpec("x", np.dtype(np.float32), (1, 3, 8, 8))])
    return [(s.name, s.feed["x"].tobytes(), s.labels) for s in found]


@pytest.mark.parametrize("handler", [Parts, Apache])
def test_names_on_a_web_server_are_those_of_the_folder(
    folder: Path, tmp_path: Path, handler: type[WholeFiles]
) -> None:
    images = sorted((folder / "images").rglob("*.png"))
    names = ["abricot/a b", "zebre/a#1", "zebre/100%", "éclair/b?2", "éclair/x&y", "x&y z/1 1"]
    for image, name in zip(images, [*names, *(f"éclair/{k} {k}" for k in range(4))], strict=False):
        (tmp_path / "of all" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(image, tmp_path / "of all" / f"{name}.png")
    with serve(tmp_path, handler) as url:
        for part in ("of all", "of all/*/*[ #]*.png"):
            expected = describe_samples(tmp_path / part)
            assert len(expected) == (10 if part == "of all" else 7)
            assert {labels for _, _, labels in expected} == {(0,), (1,), (2,), (3,)}
            assert describe_samples(f"{url}/{part}") == expected
            assert describe_samples(f"{url}/{part.replace(' ', '%20')}") == expected


@pytest.mark.parametrize("resets", [2, 99])
def test_a_subfolder_that_a_server_fails_to_list_is_asked_for_again(
    folder: Path, resets: int
) -> None:
    left = [*range(resets)]

    class Resets(Parts):
        def list_directory(self, path: str | os.PathLike[str]) -> io.BytesIO | None:
            if left and "dark" in Path(path).name:
                left.pop()
                self.close_connection = True
                return None  # the connection ends without an answer
            return super().list_directory(path)

    expected = describe_samples(folder / "images")
    with serve(folder, Resets) as url:
        if resets == 2:
            assert describe_samples(f"{url}/images") == expected
            return
        with pytest.raises(DataError, match=rf"^{url}/images/0_dark: .*\(4 attempts\)"):
            describe_samples(f"{url}/images")


def test_a_folder_that_a_server_lists_in_itself_is_one_line(folder: Path) -> None:
    class Endless(Apache):
        def translate_path(self, path: str) -> str:
            return super().translate_path(re.sub(r"/(?:\w_\w+/)*", "/", path, count=1))

    end = "the server lists a folder in itself, without end"
    with serve(folder / "images", Endless) as url, pytest.raises(DataError, match=end) as caught:
        describe_samples(f"{url}/")
    assert str(caught.value).startswith(f"{url}/")


def test_a_list_of_classes_beside_a_file_on_a_server_numbers_its_names(tmp_path: Path) -> None:
    x, labels = np.zeros((3, 2), np.float32), np.array(["cat", "dog", "cat"])
    np.savez(tmp_path / "of cats.npz", x=x, labels=labels)
    specs = [InputSpec("x", np.dtype(np.float32), (None, 2))]
    with serve(tmp_path, Parts) as url:
        place = f"{url}/of%20cats.npz?X-Signature=1"
        with pytest.raises(DataError, match=r"in a classes\.txt beside the file$"):
            ptq.open_samples(place, specs)
        (tmp_path / "classes.txt").write_text("dog\ncat\n")
        found = list(ptq.open_samples(place, specs))
    assert [sample.labels for sample in found] == [(1,), (0,), (1,)]
    assert found[0].name.startswith("of cats.npz")


@pytest.mark.parametrize(
    ("name", "status", "asked", "said"),
    [
        ("labels", 403, 1, r"is a name, .* in a classes\.txt beside the file$"),
        ("labels", 503, 4, r"^http://[^ ]*/classes\.txt: cannot be read: 503, .*\(4 attempts\)"),
        ("names", 503, 0, "unexpected 'names'"),
    ],
)
def test_a_list_of_classes_that_a_server_refuses_is_not_waited_for(
    tmp_path: Path, name: str, status: int, asked: int, said: str
) -> None:
    texts = np.array(["cat", "dog", "cat"])
    np.savez(tmp_path / "cats.npz", x=np.zeros((3, 2), np.float32), **{name: texts})
    requests = []

    class Refuses(Parts):
        def do_GET(self) -> None:
            if "classes.txt" in self.path:
                requests.append(self.path)
                self.send_error(status)
                return
            super().do_GET()

        def do_HEAD(self) -> None:
            if "classes.txt" in self.path:
                self.send_error(status)
                return
            super().do_HEAD()

    with serve(tmp_path, Refuses) as url, pytest.raises(DataError, match=said):
        ptq.open_samples(f"{url}/cats.npz?sig=1", [InputSpec("x", np.dtype(np.float32), (None, 2))])
    assert len(requests) == asked
