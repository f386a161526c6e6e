"""Files in object stores and on servers, by URL: read whole or in part, and written, with bounded retries.

The package fsspec and its file systems do the transfers. Credentials come from the environment, as each file system
documents. No message, log or record holds them: URLs are shown without user, password and query.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from ptq.core.errors import UsageError, shorten_message

EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "hf": "hf",
    "http": "remote",
    "https": "remote",
    "memory": "remote",
}
"""The extra of ptq that each scheme needs."""

PAUSES = (0.3, 1.0, 3.0)
"""Seconds before each further attempt."""
LONG_TIMEOUT = 60.0
"""Seconds. If nobody has answered for longer there is no further attempt: the store's package has tried by itself."""
_NO_ANSWER = re.compile("timeout|connector|connectionrefused|endpointconnection", re.IGNORECASE)
"""What the classes of such errors are called."""
_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_ENDLESS = {
    "TooManyRedirects": "the server redirects in a circle",
}
"""What errors mean that no retry removes, by the name of their class."""

_URL = re.compile(rf"({'|'.join(EXTRAS)}):/{{1,2}}([^/\s].*)", re.DOTALL | re.IGNORECASE)
_CLUSTERS = ("tcp", "tls", "ray")
"""The kinds of addresses of clusters."""
_WEB = ("http", "https")
"""Web servers: what follows ``?`` is a query, and names are percent-encoded."""
_WITH_QUERIES = (*_WEB, *_CLUSTERS)
"""In other URLs ``?`` and ``#`` are signs of a name, unless ``=`` follows."""
_STARTS = rf"(?:{'|'.join((*EXTRAS, *_CLUSTERS))}):/"
_NEXT = rf"(?!,{_STARTS})"
"""Not before the next URL of a list in braces."""
_WITHIN = rf"(?:(?![\s,'\"(]{_STARTS})[^\n])"
"""A sign with which no other URL begins."""
_PORT = r"\d*(?:[/?#\s]|[:,;.)'\"\]}]+(?:\s|$)|$)"
_USER = rf"(?:[^/\s\[]*?:(?!{_PORT}){_WITHIN}*@|[^/\s]*@)?"
"""User and password. Where what follows ``:`` is no port it is a password, and may hold ``@``, ``/`` and blanks."""
_SHOWN_URL = re.compile(
    rf"\b(?:({'|'.join(_WITH_QUERIES)}):/{{1,2}}(?=[^/\s]){_USER}"
    rf"|({'|'.join(sorted({*EXTRAS} - {*_WEB}))}):/{{1,2}}(?=[^/\s])(?:[^/\s]*@)?)"
    rf"((?:{_NEXT}[^\s?#])*(?:[ ]{_WITHIN}*?(?=\?[^\s?=]+=))?)([?#](?:{_NEXT}\S)*)?",
    re.IGNORECASE,
)
_SECRET_NAMES = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|SAS|CONNECTION_STRING")
_LEAST_SECRET = 6
"""Shorter values of variables are no secrets, and occur in other words."""

_LOG = logging.getLogger("ptq")
T = TypeVar("T")


def as_url(place: str | os.PathLike[str]) -> str | None:
    """The URL in a text or in a path; None for a place of this machine.

    A path made of a URL has lost one slash. A folder that is named as a scheme comes first. Schemes have small
    letters.
    """
    text = os.fspath(place)
    found = _URL.fullmatch(text)
    if found is None or (f"{found[1]}://" not in text and Path(f"{found[1]}:").exists()):
        return None
    return f"{found[1].lower()}://{found[2]}"


def redact(place: object) -> str:
    """A path or a URL for a message; and any text, with its URLs shown without user, password and query."""
    text = _SHOWN_URL.sub(_shorten_url, str(place))
    for name, value in os.environ.items():
        if len(value) >= _LEAST_SECRET and _SECRET_NAMES.search(name.upper()) and value in text:
            text = text.replace(value, "…")
    return text


def _shorten_url(found: re.Match[str]) -> str:
    scheme, path, rest = (found[1] or found[2]).lower(), found[3], found[4] or ""
    is_query = scheme in _WITH_QUERIES or "=" in rest
    return f"{scheme}://{path}{'' if is_query else rest}"


def open_file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it.

    Raises:
        UsageError: A package is missing, or the URL cannot be understood.
    """
    scheme = url.partition(":")[0]
    try:
        import fsspec

        # a signature must arrive as it is
        options = {"encoded": True} if without_query(url) != url else {}
        system, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise UsageError(
            f'{redact(url)}: needs a package that is not installed; pip install "onnx-ptq[{EXTRAS[scheme]}]"'
        ) from error
    # file systems check URLs and credentials in their own ways
    except Exception as error:
        reason = redact(shorten_message(error))
        raise UsageError(f"{redact(url)}: cannot be opened: {reason}; check the URL") from error
    return system, path


def run_with_retries(url: str, action: Callable[[], T]) -> T:
    """The result of an action on a URL; it is tried four times, or until a long timeout.

    Raises:
        OSError: It failed for a reason that no retry removes, or each time. ``strerror`` is the reason.
    """
    for tries, pause in enumerate((*PAUSES, None), 1):
        started = time.monotonic()
        try:
            return action()
        # Libraries of file systems raise errors of HTTP clients, of asyncio and of their own.
        except Exception as raised:
            found = _find_reason(raised)
            if isinstance(found, PermissionError) or getattr(found, "status", None) in _REFUSALS:
                reason = f"permission denied ({redact(shorten_message(found))})"
                raise PermissionError(errno.EACCES, reason, redact(url)) from None
            if isinstance(found, (FileNotFoundError, IsADirectoryError, NotADirectoryError)):
                absent = "No such file or directory"
                raise FileNotFoundError(errno.ENOENT, absent, redact(url)) from None
            endless = _ENDLESS.get(type(found).__name__)
            reason = endless or redact(getattr(found, "strerror", None) or shorten_message(found))
            lasting = (
                endless is not None
                or isinstance(found, (NotImplementedError, TypeError))
                or _is_credential_error(found)
            )
            took = time.monotonic() - started
            silent = took > LONG_TIMEOUT and _has_no_answer(found)
            if pause is None or lasting or silent:
                often = f" ({tries} attempts)" if tries > 1 else ""
                often = f" (after {took:.0f} s)" if silent else often
                raise OSError(errno.EIO, f"{reason}{often}", redact(url)) from None
            _LOG.info("%s: %s; next attempt in %.1f s", redact(url), reason, pause)
            time.sleep(pause)
    raise AssertionError  # the last pause is None


def _find_reason(error: Exception) -> Exception:
    """The error itself; for what fsspec calls a missing file because a web server failed, the server's error."""
    cause = error.__cause__
    is_http = type(cause).__module__.partition(".")[0] == "aiohttp"
    is_missing = getattr(cause, "status", None) in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
    return cause if isinstance(cause, Exception) and is_http and not is_missing else error


def _has_no_answer(error: BaseException | None) -> bool:
    """Whether an error, or what has caused it, is a timeout or a connection that was not made."""
    while error is not None and not _NO_ANSWER.search(type(error).__name__):
        error = error.__cause__
    return error is not None


def _is_credential_error(error: Exception) -> bool:
    return "credential" in type(error).__name__.lower()


def read(url: str, size: int | None = None, start: int = 0, most: int = 2**31) -> bytes:
    """The content of an object, or ``size`` bytes from ``start`` on.

    Args:
        url: The object.
        size: How many bytes it has, or how many are read; None to ask the file system.
        start: The first byte.
        most: More bytes are refused.

    Raises:
        OSError: It cannot be read, or has fewer bytes than it should.
        UsageError: A package is missing.
    """
    system, path = open_file_system(url)

    def fetch() -> bytes:
        wanted = system.info(path).get("size") if size is None else size
        if wanted is not None and wanted > most:
            raise OSError(errno.EFBIG, f"more than {most / 1e6:.0f} MB")
        part = start or size is not None
        content = bytes(
            system.cat_file(path, start=start, end=start + (wanted or 0))
            if part
            else system.cat_file(path)
        )
        if part and wanted is not None and len(content) > wanted:
            raise NotImplementedError("the server sends whole files only; copy it to this machine")
        if wanted is not None and len(content) != wanted:
            raise OSError(errno.EIO, f"truncated: {len(content)} of {wanted} bytes")
        return content

    return run_with_retries(url, fetch)


def write(url: str, content: bytes) -> None:
    """Write an object: it appears whole or not at all.

    Raises:
        OSError: It cannot be written.
        UsageError: A package is missing.
    """
    system, path = open_file_system(url)

    def put() -> None:
        system.pipe_file(path, content)
        system.invalidate_cache()
        size = system.info(path).get("size")
        if size not in (None, len(content)):
            raise OSError(errno.EIO, f"truncated: {size} of {len(content)} bytes")

    run_with_retries(url, put)


def has_object(url: str) -> bool:
    """Whether there is an object.

    Raises:
        OSError: It cannot be found out.
        UsageError: A package is missing.
    """
    system, path = open_file_system(url)
    system.invalidate_cache()
    return bool(run_with_retries(url, lambda: system.exists(path)))


def open_stream(url: str) -> Any:
    """A stream that reads an object in blocks of 1 MiB; errors are those of its file system."""
    system, path = open_file_system(url)
    return system.open(path, "rb", block_size=2**20, cache_type="readahead")


def without_query(url: str) -> str:
    """A URL without what follows ``?`` in it, which signs or versions it; a pattern and a path stay whole.

    A query holds ``=``, and comes after a path without ``*`` and ``[``.
    """
    path, _, query = url.partition("?")
    is_query = is_web(url) and "=" in query
    return path if is_query and not any(sign in path for sign in "*[") else url


def is_web(url: str) -> bool:
    """Whether a URL is that of a web server, and not of a store."""
    return (as_url(url) or "").partition("://")[0] in _WEB


def get_path(url: str) -> str:
    """A URL without query, with the names that its files have in a folder; a path as it is."""
    path = without_query(url)
    return decode_names(path) if is_web(url) else path


def decode_names(path: str) -> str:
    """The names of a path from a web server as its folder has them, by its percent signs and their numbers.

    A name that would be none in a folder stays.
    """
    names = [(name, unquote(name, errors="surrogateescape")) for name in path.split("/")]
    return "/".join(name if {"/", "\0"} & {*decoded} else decoded for name, decoded in names)


def split_pattern(url: str) -> tuple[str, str]:
    """The part of a URL or path before the first segment with ``*``, ``?`` or ``[``, and the rest."""
    if without_query(url) != url:
        return url, ""
    segments = url.split("/")
    for index, segment in enumerate(segments):
        if any(sign in segment for sign in "*?["):
            return "/".join(segments[:index]), "/".join(segments[index:])
    return url, ""
