"""The objects under a URL, or that match its pattern: their names, URLs and sizes."""

from __future__ import annotations

import errno
import html
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ptq.core import remote


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
    root, is_web = root.rstrip("/"), remote.is_web(base)
    depth = None if "**" in pattern or not pattern else pattern.count("/") + 1

    def find() -> dict[str, Any]:
        found: dict[str, Any] = (
            system.glob(f"{root}/{pattern}", detail=True)
            if pattern and not is_web
            else system.find(root, maxdepth=depth, detail=True)
        )
        return found

    objects = {}
    for relative, size in _select_files(remote.run_with_retries(url, find), root):
        # the page of a web server links a folder to itself, in another order
        if is_web and relative.rpartition("/")[2].startswith(("?", "#")):
            continue
        link = html.unescape(relative) if is_web else relative
        name = remote.decode_names(link) if is_web else relative
        objects[name] = StoredObject(f"{base.rstrip('/')}/{link}", size)
    if pattern and is_web:  # links are encoded, the pattern may be
        matches = _parse_pattern(remote.decode_names(pattern)).match
        objects = {name: found for name, found in objects.items() if matches(name)}
    return dict(sorted(objects.items()))


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
