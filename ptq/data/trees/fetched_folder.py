"""A tree of files as a folder of samples: each file is fetched when it is read, a few of them ahead.

A fetched file is in a temporary folder while it is decoded, and removed afterwards. Memory and disk therefore hold a
few files, whatever their number.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ptq.core.errors import DataError, PtqError
from ptq.data.folder import FolderListing, ListingPart, classify_files, is_label_file
from ptq.data.labelling import Labelling
from ptq.data.labels.class_names import CLASS_LIST
from ptq.data.sample import BadSample, Sample, SampleSource
from ptq.data.trees.readers import Readers
from ptq.data.trees.tree import FileTree
from ptq.data.wrapped_source import WrappedSource

READERS = 8
"""Files that are fetched at once."""
AHEAD_BYTES = 64 * 2**20
"""Bytes that are fetched ahead, at most; one file always is."""
_SIDECAR_BYTES = 64 * 2**20
_SIDECARS = (".txt", ".csv", ".tsv")


class _LongNameError(DataError):
    """A name of a tree that no file of this machine can have."""


class FetchedFolder(WrappedSource):
    """The files of a tree as samples."""

    def __init__(
        self, tree: FileTree, open_listing: Callable[[FolderListing], SampleSource]
    ) -> None:
        """Fetch the files that may hold labels, and open the listing.

        Args:
            tree: The files.
            open_listing: Opens a folder of which only the files with labels are there yet.

        Raises:
            DataError: There are no samples, or the model does not take them.
        """
        self._tree = tree
        try:
            self._root = Path(tempfile.mkdtemp(prefix="ptq-"))
        except OSError as error:
            raise DataError(
                f"{tree.title}: there is no folder for temporary files: {error.strerror}; name one in TMPDIR"
            ) from error
        weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        self._lock = threading.Lock()
        paths = {n: n.removeprefix(tree.shard_of.get(n, "")) for n in sorted(tree.sizes)}
        folders = sorted({path.split("/")[0] for path in paths.values() if "/" in path})
        with self._naming():
            names = [n for n, path in paths.items() if path == n or not is_label_file(path)]
            listing = classify_files(self._root, names, folders)
            samples = {*listing.files, *listing.archives}
            self._fetch_sidecars(paths, samples)
            parts = self._list_parts(paths, samples)
            super().__init__(open_listing(replace(listing, parts=parts, labels=tree.labels)))

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from."""
        found = super().labelling
        return replace(found, notes=(*found.notes, *self._tree.label_notes))

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Fetch and read the files, in order."""
        for position, content in self._fetch_ahead(positions):
            name = self.name(position)
            try:
                found = content.result()
            except DataError as error:
                yield BadSample(name, error)
                continue
            yield self._read_one(position, name, found)

    def _read_one(self, position: int, name: str, content: bytes) -> Sample | BadSample:
        with self._lock:
            try:
                path = self._keep(name, content)
            except _LongNameError as error:
                return BadSample(name, error)
            try:
                (item,) = self._source.read([position])
            finally:
                path.unlink(missing_ok=True)
        if isinstance(item, BadSample):
            return BadSample(name, DataError(self._rename(str(item.error))))
        return item

    def _fetch_ahead(self, positions: Iterable[int]) -> Iterator[tuple[int, Future[bytes]]]:
        waiting: deque[tuple[int, Future[bytes], int]] = deque()
        sizes, ahead = self._tree.sizes, 0
        readers = Readers(self._tree.read, READERS if self._tree.is_remote else 1)
        try:
            for position in positions:
                size = sizes[self.name(position)]
                while waiting and (ahead + size > AHEAD_BYTES or len(waiting) >= 2 * READERS):
                    done, future, freed = waiting.popleft()
                    ahead -= freed
                    yield done, future
                waiting.append((position, readers.submit(self.name(position)), size))
                ahead += size
            while waiting:
                done, future, _ = waiting.popleft()
                yield done, future
        finally:
            readers.stop()

    def _fetch_sidecars(self, paths: Mapping[str, str], samples: Set[str]) -> None:
        """Fetch files at the top of the folder or shard that may hold labels or class names.

        Args:
            paths: The path in its shard of each name.
            samples: The names of samples.

        Raises:
            DataError: One cannot be read, or lists of classes differ.
        """
        sizes = self._tree.sizes
        sidecars = [
            name
            for name in sorted(paths.keys() - samples)
            if "/" not in paths[name]
            and name.lower().endswith(_SIDECARS)
            and sizes[name] <= _SIDECAR_BYTES
        ]
        lists = [name for name in sidecars if paths[name] == CLASS_LIST]
        for name in sidecars:
            is_replaced = name in self._tree.shard_of or Path(name).stem.lower() == "labels"
            if name not in lists and not (self._tree.labels and is_replaced):
                self._keep(name, self._tree.read(name))
        contents = {name: self._tree.read(name) for name in lists}
        for name, content in contents.items():
            if content.strip().splitlines() != contents[lists[0]].strip().splitlines():
                raise DataError(
                    f"{self._tree.title}: {lists[0]} and {name} differ; give all shards the same list of classes"
                )
            self._keep(CLASS_LIST, content)

    def _list_parts(
        self, paths: Mapping[str, str], samples: Iterable[str]
    ) -> tuple[ListingPart, ...]:
        """The shards, if names of their files repeat; samples that keep their paths belong to all."""
        shared: dict[str, str] = {}
        own: dict[str, dict[str, str]] = {shard: {} for shard in self._tree.shard_of.values()}
        for name in samples:
            shard = self._tree.shard_of.get(name)
            (shared if shard is None else own[shard])[paths[name]] = name
        for shard in own:
            (self._root / shard).mkdir(parents=True, exist_ok=True)
        return tuple(ListingPart(self._root / s, own[s] or shared) for s in sorted(own))

    def _keep(self, name: str, content: bytes) -> Path:
        path = self._root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise _LongNameError(
                    f"{self._tree.title}/{name}: its name is too long for a file of this machine; rename it"
                ) from None
            raise DataError(
                f"{self._tree.title}/{name}: cannot be kept in {self._root.parent}: {error.strerror}; free space "
                "there, or name another folder in TMPDIR"
            ) from error
        return path

    def _rename(self, text: str) -> str:
        return text.replace(str(self._root), self._tree.title)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Errors name the tree in place of the temporary folder."""
        try:
            yield
        except PtqError as error:
            if str(self._root) not in str(error):
                raise
            raise type(error)(self._rename(str(error))) from error
