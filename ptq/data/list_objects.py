"""The objects under a URL, or that match its pattern: their names, URLs and sizes."""

from __future__ import annotations

import errno
import html
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ptq.core import remote
from ptq.data.folder import is_hidden

_MOST_FOLDERS = 100
"""Folders within each other on a web server; where there are more, a folder lists itself."""


class StoredObject(NamedTuple):
    """An object of a store, or a file of a web server.

    Attributes:
        url: Where it is read.
        size: Its bytes; 0 if the listing does not say.
    """

    url: str
    size: int


def list_objects(url: str) -> dict[str, StoredObject]:
    """All objects under a URL, or that match its pattern of ``*``, ``?`` and ``[…]``.

    Returns:
        Each by its name relative to `split_pattern`'s first part, as a folder would have it; sorted by name.

    Raises:
        OSError: They cannot be listed.
        UsageError: A package is missing.
    """
    base, pattern = remote.split_pattern(url)
    system, root = remote.open_file_system(base)
    system.invalidate_cache()
    root = root.rstrip("/")
    if remote.is_web(base):
        depth = None if "**" in pattern or not pattern else pattern.count("/") + 1
        links = _list_pages(system, root, depth or _MOST_FOLDERS, is_bounded=depth is not None)
        objects = {
            remote.decode_names(link): StoredObject(f"{base.rstrip('/')}/{link}", 0)
            for link in links
        }
        if pattern:  # links are encoded, the pattern may be
            matches = _parse_pattern(remote.decode_names(pattern)).match
            objects = {name: found for name, found in objects.items() if matches(name)}
    else:
        found = remote.run_with_retries(
            url,
            lambda: (
                system.glob(f"{root}/{pattern}", detail=True)
                if pattern
                else system.find(root, detail=True)
            ),
        )
        objects = {
            name: StoredObject(f"{base.rstrip('/')}/{name}", size)
            for name, size in _select_files(found, root)
        }
    return dict(sorted(objects.items()))


def _list_pages(system: Any, folder: str, depth: int, *, is_bounded: bool) -> Iterator[str]:
    """The links of the files in a folder of a web server and in those below it, but not in hidden ones.

    fsspec follows links as the page writes them, with ``&amp;``, and leaves out each folder that fails.

    Args:
        system: The file system.
        folder: The URL of the folder.
        depth: How many folders deep files may be.
        is_bounded: Whether what is deeper is not asked for; otherwise it is an error.

    Raises:
        OSError: A folder cannot be listed, or is listed in itself.
    """
    if depth == 0:
        if is_bounded:
            return
        reason = "the server lists a folder in itself, without end"
        raise OSError(errno.ELOOP, reason, remote.redact(folder))
    for entry in remote.run_with_retries(folder, lambda: system.ls(folder, detail=True)):
        link = html.unescape(entry["name"].removeprefix(folder).lstrip("/"))
        link = link.removeprefix("./")
        # the page of a web server links a folder to itself, in another order
        if link.startswith(("?", "#")) or link in ("", "."):
            continue
        if not link.endswith("/"):
            yield link
        elif not is_hidden(remote.decode_names(link)):
            inner = link.rstrip("/")
            below = _list_pages(system, f"{folder}/{inner}", depth - 1, is_bounded=is_bounded)
            yield from (f"{inner}/{name}" for name in below)


def _select_files(found: Mapping[str, Any], root: str) -> Iterator[tuple[str, int]]:
    """The name relative to the root and the size of each entry that is a file."""
    for place, details in found.items():
        relative = place.removeprefix(root).lstrip("/")
        if details.get("type", "file") == "file" and relative and not place.endswith("/"):
            yield relative, int(details.get("size") or 0)


def _parse_pattern(pattern: str) -> re.Pattern[str]:
    from fsspec.utils import glob_translate

    try:
        return re.compile(glob_translate(pattern))
    except ValueError as error:  # ** inside a name
        raise OSError(errno.EINVAL, str(error)) from None
