"""Samples in emulators of Google's and of Azure's storage, and behind a small server for the client of Hugging Face.

All run on loopback. The same samples from a folder are the oracle. Commands run in processes of their own, because
the packages read the address of their server when they are imported.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import onnx
import pytest
from brightness import brightness_model, write_brightness_images
from object_store import free_port, wait_for

pytestmark = pytest.mark.remote

ROOT = Path(__file__).resolve().parents[3]
SECRET = "hf_very_secret_token_1234"
AZURE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The key of the account that Azurite has: its documentation names it."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with ``model.onnx`` and the folder ``images``."""
    monkeypatch.chdir(tmp_path)
    onnx.save(brightness_model(), "model.onnx")
    write_brightness_images(tmp_path / "images")
    return tmp_path


def run_ptq(*arguments: str, code: int = 0, **environment: str) -> str:
    """Run the command line, which must end with this code and name no secret; its standard error."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment}
    done = subprocess.run(
        [sys.executable, "-m", "ptq", *arguments],
        env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert not any(secret in done.stdout + done.stderr for secret in (SECRET, AZURE_KEY))
    return done.stderr


def calibrate(data: str, out: str = "out.npz", **environment: str) -> None:
    """Let the command line write statistics."""
    options = ["--mean", "0.2", "--std", "0.25", "--threads", "1", "-o", out]
    run_ptq("calibrate", "model.onnx", "--data", data, *options, **environment)


def read_expected() -> bytes:
    """The statistics of the folder."""
    calibrate("images", "expected.npz")
    return Path("expected.npz").read_bytes()


@pytest.fixture
def google(place: Path) -> Iterator[str]:
    """The address of the emulator, whose bucket ``some-bucket`` holds the images below ``calib``."""
    pytest.importorskip("gcsfs", reason="gcsfs is not installed")
    pytest.importorskip("gcp_storage_emulator", reason="gcp-storage-emulator is not installed")
    port = free_port()
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--host", "127.0.0.1"]
    options = ["--port", str(port), "--in-memory", "--default-bucket", "some-bucket"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, *options], **quiet) as process:
        try:
            wait_for(port, process)
            address = f"http://127.0.0.1:{port}"
            client = http.client.HTTPConnection("127.0.0.1", port)
            for file in sorted((place / "images").rglob("*.png")):
                name = quote(f"calib/{file.relative_to(place / 'images').as_posix()}", safe="")
                target = f"/upload/storage/v1/b/some-bucket/o?uploadType=media&name={name}"
                client.request("POST", target, file.read_bytes(), {"Content-Type": "image/png"})
                answer = client.getresponse()
                answer.read()
                assert answer.status == 200
            yield address
        finally:
            process.kill()


def test_images_in_an_emulator_of_google_give_the_bytes_of_a_folder(google: str) -> None:
    calibrate(
        "gs://some-bucket/calib", STORAGE_EMULATOR_HOST=google, FSSPEC_GS_TOKEN="anon",
        GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT="false",
    )  # fmt: skip
    assert Path("out.npz").read_bytes() == read_expected()


@pytest.fixture
def azurite(place: Path) -> Iterator[str]:
    """What connects to Azurite, whose container ``some-container`` holds the images below ``calib``."""
    pytest.importorskip("adlfs", reason="adlfs is not installed")
    from azure.storage.blob import BlobServiceClient

    server = shutil.which("azurite-blob")
    if server is None:
        pytest.skip("Azurite is not installed (npm install azurite)")
    port = free_port()
    command = [server, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
    options = ["--location", str(place / "azurite"), "--skipApiVersionCheck", "--disableTelemetry"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, *options], **quiet) as process:
        try:
            wait_for(port, process)
            account = (
                f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={AZURE_KEY}"
            )
            connection = f"{account};BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
            with BlobServiceClient.from_connection_string(connection) as client:
                container = client.create_container("some-container")
                for file in sorted((place / "images").rglob("*.png")):
                    name = f"calib/{file.relative_to(place / 'images').as_posix()}"
                    container.upload_blob(name, file.read_bytes())
                container.close()
            yield connection
        finally:
            process.kill()


def test_images_in_an_emulator_of_azure_give_the_bytes_of_a_folder(azurite: str) -> None:
    calibrate("az://some-container/calib", AZURE_STORAGE_CONNECTION_STRING=azurite)
    assert Path("out.npz").read_bytes() == read_expected()


def test_statistics_are_written_to_an_emulator_of_azure_and_read_from_it(azurite: str) -> None:
    from azure.storage.blob import BlobClient

    store = "az://some-container/made/out.npz"
    calibrate("images", store, AZURE_STORAGE_CONNECTION_STRING=azurite)
    with BlobClient.from_connection_string(azurite, "some-container", "made/out.npz") as written:
        assert written.download_blob().readall() == read_expected()
    for statistics, made in ((store, "made.onnx"), ("expected.npz", "expected.onnx")):
        command = ["quantize", "model.onnx", "--stats", statistics, "-o", made, "--force"]
        run_ptq(*command, AZURE_STORAGE_CONNECTION_STRING=azurite)
    assert Path("made.onnx").read_bytes() == Path("expected.onnx").read_bytes()


def test_a_container_of_azure_that_does_not_exist_is_refused_before_long_work(azurite: str) -> None:
    options = ["--data", "images", "-o", "az://no-such-container/made/out.npz"]
    error = run_ptq(
        "calibrate", "model.onnx", *options, code=2, AZURE_STORAGE_CONNECTION_STRING=azurite
    )
    assert error.splitlines() == [
        "error: output az://no-such-container/made/out.npz: there is no 'no-such-container' in the store; create it "
        "first, or choose another place"
    ]


class HubHandler(BaseHTTPRequestHandler):
    """The data set ``somebody/images`` in the folder of the server: its description, its listing, its files."""

    protocol_version = "HTTP/1.1"
    folder: Path
    asked: list[str]

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.asked.append(path)
        if path.startswith("/api/datasets/somebody/images/tree/"):
            below = path.removeprefix("/api/datasets/somebody/images/tree/").partition("/")[2]
            self.answer_json(self.list_folder(below))
        elif path.startswith("/api/datasets/somebody/images"):
            record = {"id": "somebody/images", "sha": "a" * 40, "siblings": [], "private": False}
            self.answer_json({**record, "tags": [], "downloads": 0, "likes": 0, "disabled": False})
        elif path.startswith("/datasets/somebody/images/resolve/main/"):
            file = self.folder / path.removeprefix("/datasets/somebody/images/resolve/main/")
            self.answer(file.read_bytes() if file.is_file() else None, "application/octet-stream")
        else:
            self.answer(None, "text/plain")

    do_HEAD = do_GET  # noqa: N815 # the name of http.server

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        asked = json.loads(self.rfile.read(size) or b"{}")
        entries = [self.describe(path) for path in asked.get("paths", [])]
        self.answer_json([entry for entry in entries if entry is not None])

    def list_folder(self, below: str) -> list[dict[str, object]]:
        paths = sorted((self.folder / below).rglob("*"))
        found = (self.describe(path.relative_to(self.folder).as_posix()) for path in paths)
        return [entry for entry in found if entry is not None]

    def describe(self, path: str) -> dict[str, object] | None:
        file = self.folder / path
        if file.is_dir():
            return {"type": "directory", "oid": "0" * 40, "size": 0, "path": path}
        if not file.is_file():
            return None
        content = file.read_bytes()
        digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        return {"type": "file", "oid": digest, "size": len(content), "path": path}

    def answer_json(self, document: object) -> None:
        self.answer(json.dumps(document).encode(), "application/json")

    def answer(self, content: bytes | None, kind: str) -> None:
        body = b"{}" if content is None else content
        first, last = 0, len(body) - 1
        asked = self.headers.get("Range", "")
        if content is not None and asked.startswith("bytes="):
            low, _, high = asked.removeprefix("bytes=").partition("-")
            first, last = int(low), min(int(high or last), last)
        part = body[first : last + 1]
        self.send_response(404 if content is None else 206 if asked else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", "a" * 40)
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(body)}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


def test_a_data_set_behind_the_client_of_hugging_face_gives_the_bytes_of_a_folder(
    place: Path,
) -> None:
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    asked: list[str] = []
    handler = type("Handler", (HubHandler,), {"folder": place / "images", "asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        calibrate(
            "hf://datasets/somebody/images",
            HF_ENDPOINT=f"http://127.0.0.1:{server.server_address[1]}",
            HF_TOKEN=SECRET, HF_HOME=str(place / "home"),
        )  # fmt: skip
    finally:
        server.shutdown()
        server.server_close()
    assert Path("out.npz").read_bytes() == read_expected()
    assert any(path.startswith("/datasets/somebody/images/resolve/") for path in asked)
