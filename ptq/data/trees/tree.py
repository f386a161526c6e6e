"""The files of a tree by relative name, and checks that hold for every tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ptq.core.errors import DataError

MAX_FILE_BYTES = 2**30
"""Largest file of a tree that is fetched."""


class FileTree(Protocol):
    """Files by relative name.

    Attributes:
        title: Where they are, for messages; without user, password and query.
        is_remote: Whether reading waits for another machine.
        label_notes: What was converted in ``labels``, and which labels were not read.
    """

    title: str
    is_remote: bool
    label_notes: tuple[str, ...]

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by relative POSIX path."""
        ...

    @property
    def labels(self) -> Mapping[str, tuple[str | int, ...]]:
        """Labels that the tree itself holds, by name of the file; numbers or class names."""
        ...

    @property
    def shard_of(self) -> Mapping[str, str]:
        """What stands before a file's path in its shard, by name; without files that keep their path."""
        ...

    def read(self, name: str) -> bytes:
        """Content of a file; raise DataError if it cannot be read or is truncated."""
        ...


def require_safe_names(names: Iterable[str], title: str) -> None:
    """Refuse names that lead out of the tree.

    Raises:
        DataError: One does.
    """
    for name in names:
        parts = name.split("/")
        if name.startswith("/") or "\0" in name or {"..", "."}.intersection(parts) or "" in parts:
            shown = " ".join(repr(name).split())[:120]
            raise DataError(f"{title}: the name {shown} leads out of the data; rename it")
