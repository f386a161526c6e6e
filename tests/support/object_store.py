"""A real S3 server on loopback (moto's, as a process of its own), and a proxy before it that misbehaves."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SECRET = "very-secret-key-1234"
BUCKET = "some-bucket"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Wait until a server of this machine answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert process.poll() is None, "the server ended"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the server did not start")


@contextmanager
def run_store() -> Iterator[int]:
    """A store with one empty bucket; the number of its port."""
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    pytest.importorskip("moto", reason="moto is not installed")
    pytest.importorskip("flask_cors", reason="moto's server needs flask_cors")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(port, process)
            client = http.client.HTTPConnection("127.0.0.1", port)
            client.request("PUT", f"/{BUCKET}")
            assert client.getresponse().status == 200
            yield port
        finally:
            process.kill()


def point_to(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """Let s3:// lead to a port of this machine, for this process and those that it starts."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)


def upload(folder: Path, prefix: str) -> str:
    """Put the files of a folder into the bucket; the URL of the prefix."""
    import s3fs

    system = s3fs.S3FileSystem()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        system.pipe_file(f"{BUCKET}/{prefix}/{name}", path.read_bytes())
    return f"s3://{BUCKET}/{prefix}"


def download(url: str) -> bytes:
    """The content of an object."""
    import s3fs

    return bytes(s3fs.S3FileSystem().cat_file(url))


@dataclass
class Proxy:
    """A proxy before the store.

    Attributes:
        misbehave: What happens to the n-th request for an object's content: ``fail``, ``cut``, ``wait``, or None.
        port: Its port.
        requests: How often each object's content was asked for.
    """

    misbehave: Callable[[str, int], str | None]
    port: int = 0
    requests: dict[str, int] = field(default_factory=dict)


@contextmanager
def run_proxy(store: int, misbehave: Callable[[str, int], str | None]) -> Iterator[Proxy]:
    """Run the proxy in threads of this process."""
    proxy = Proxy(misbehave)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(size)
            client = http.client.HTTPConnection("127.0.0.1", store)
            client.request(self.command, self.path, body, dict(self.headers))
            answer = client.getresponse()
            content = answer.read()
            fault = None
            if self.command == "GET" and "list-type" not in self.path:
                count = proxy.requests[self.path] = proxy.requests.get(self.path, 0) + 1
                fault = proxy.misbehave(self.path, count)
            if fault == "wait":
                time.sleep(1.0)
            self.send_response(503 if fault == "fail" else answer.status)
            headers = dict(answer.getheaders())
            for name, value in headers.items():
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            length = headers.get("content-length", headers.get("Content-Length"))
            self.send_header(
                "Content-Length",
                str(length if self.command == "HEAD" and length else len(content)),
            )
            self.end_headers()
            if fault == "cut":
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
            elif self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 # the names of http.server

        def log_message(self, *_: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
