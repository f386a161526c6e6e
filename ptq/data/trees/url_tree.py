"""Objects under a URL, or that match a pattern, as a tree of files."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core import remote
from ptq.core.errors import DataError
from ptq.data.folder import is_hidden
from ptq.data.list_objects import list_objects
from ptq.data.trees.tree import MAX_FILE_BYTES, require_safe_names


class UrlTree:
    """Objects by their names relative to a URL."""

    is_remote = True
    label_notes: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str | int, ...]] = {}
    shard_of: Mapping[str, str] = {}

    def __init__(self, url: str) -> None:
        """List the objects.

        Raises:
            DataError: They cannot be listed, there are none, or a name leads out of the tree.
            UsageError: A package is missing.
        """
        self.title = remote.redact(url).rstrip("/")
        try:
            found = list_objects(url)
        except OSError as error:
            raise DataError(
                f"{error.filename or self.title}: cannot list the data: {error.strerror}"
            ) from error
        require_safe_names(found, self.title)
        # as in a folder, hidden files are none
        self._objects = {name: one for name, one in found.items() if not is_hidden(name)}
        self._sizes = {name: one.size for name, one in self._objects.items()}
        if not self._sizes:
            raise DataError(f"{self.title}: there are no objects; check the URL")

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each object."""
        return self._sizes

    def url_of(self, name: str) -> str:
        """The URL of an object."""
        return self._objects[name].url

    def read(self, name: str) -> bytes:
        """Content of an object, which has the size of the listing."""
        url = self.url_of(name)
        try:
            return remote.read(url, self._sizes[name] or None, most=MAX_FILE_BYTES)
        except OSError as error:
            raise DataError(f"{remote.redact(url)}: cannot be read: {error.strerror}") from error
