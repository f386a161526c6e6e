"""Opening of a place: a file, a folder, shards or a pattern, on this machine or in a store."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ptq.core import remote
from ptq.core.errors import DataError, PtqError
from ptq.data.folder import (
    AUDIO_SUFFIXES,
    IMAGE_SUFFIXES,
    FolderListing,
    classify_files,
    is_hidden,
    list_folder,
)
from ptq.data.formats.arrays import NpyTable, NpzTable
from ptq.data.input_spec import InputSpec
from ptq.data.labels.class_names import CLASS_LIST
from ptq.data.places import (
    SHARD_SUFFIXES,
    find_shards,
    has_pattern,
    match_files,
    require_one_kind,
    select_shards,
)
from ptq.data.preparation import Preparation
from ptq.data.preprocessing.image_options import choose_image_options
from ptq.data.preprocessing.recorded_preprocess import RecordedPreprocess, complete_preprocess
from ptq.data.sample import SampleSource
from ptq.data.sources.open_folder import open_folder, open_text_file
from ptq.data.sources.open_object import get_only_input_name, open_table
from ptq.data.sources.parquet import ParquetRows
from ptq.data.trees.fetched_folder import FetchedFolder
from ptq.data.trees.tar_tree import TarTree
from ptq.data.trees.url_tree import UrlTree

_FILE_SUFFIXES = (".npz", ".npy", ".txt", *AUDIO_SUFFIXES)
"""Files that are the data of a run on their own."""


@dataclass(frozen=True)
class PlaceOpener:
    """Opens places for one model.

    Attributes:
        inputs: The model's inputs.
        preprocess: What the user gives.
        recorded: What an earlier run recorded.
        required: Whether arrays that ``preprocess`` does not apply to are refused.
    """

    inputs: Sequence[InputSpec]
    preprocess: Preparation | None
    recorded: RecordedPreprocess | None
    required: bool = True

    def open(self, text: str) -> SampleSource:
        """Samples of a path, a URL, shards or a pattern.

        Raises:
            DataError: There are no samples, or the model does not take them.
            UsageError: An option does not apply to them, or a package is missing.
        """
        shards = find_shards(text)
        if shards:
            return self._open_shards(shards)
        url = remote.as_url(text)
        if url is not None:
            return self._open_url(url)
        if has_pattern(text):
            return self._open_folder(_list_matches(text))
        return self._open_path(Path(text))

    def _open_shards(self, shards: Sequence[str]) -> SampleSource:
        if remote.without_query(shards[0]).lower().endswith(SHARD_SUFFIXES[0]):
            only_input = self.inputs[0].name if len(self.inputs) == 1 else None
            return FetchedFolder(TarTree(shards, only_input), self._open_folder)
        images = choose_image_options(
            self.preprocess, self.recorded, remote.redact(shards[0]), required=self.required
        )
        return ParquetRows(shards, self.inputs, images)

    def _open_url(self, url: str) -> SampleSource:
        if not has_pattern(url) and remote.without_query(url).lower().endswith(_FILE_SUFFIXES):
            return self._open_fetched_file(url)
        tree = UrlTree(url)
        shards = require_one_kind(url, select_shards(list(tree.sizes)))
        if shards:
            return self._open_shards([tree.url_of(name) for name in shards])
        return FetchedFolder(tree, self._open_folder)

    def _open_fetched_file(self, url: str) -> SampleSource:
        """Samples of one file, which is in a temporary folder as long as they are used."""
        folder = Path(tempfile.mkdtemp(prefix="ptq-"))
        try:
            path = folder / remote.get_path(url).rstrip("/").rpartition("/")[2]
            with _rename_in_errors(folder, remote.redact(url).rpartition("/")[0]):
                try:
                    path.write_bytes(remote.read(url))
                except OSError as error:
                    raise DataError(f"{path}: cannot open the data: {error.strerror}") from error
                if _has_text_labels(path):
                    _fetch_class_list(url, folder)
                source = self._open_path(path)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(source, shutil.rmtree, folder, ignore_errors=True)
        return source

    def _open_folder(self, listing: FolderListing) -> SampleSource:
        return open_folder(
            listing, self.inputs, self._completed, self.recorded, required=self.required
        )

    @property
    def _completed(self) -> Preparation | None:
        given = self.preprocess
        return (None if given is None else complete_preprocess(given, self.recorded)) or given

    def _open_path(self, path: Path) -> SampleSource:
        completed = self._completed
        try:
            if path.is_dir():
                return self._open_folder(list_folder(path))
            path.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"{path}: cannot open the data: {reason}") from error
        if not path.is_file():
            raise DataError(f"{path}: not a file or folder; give samples")
        suffix = path.suffix.lower()
        if suffix == ".txt":
            return open_text_file(path, self.inputs, completed, self.recorded)
        if suffix in AUDIO_SUFFIXES:
            raise DataError(f"{path}: is a single WAV file; give the folder of the files")
        if suffix in IMAGE_SUFFIXES:
            raise DataError(f"{path}: is a single image; give the folder of the images")
        if suffix in (".npz", ".npy"):
            images = choose_image_options(
                self.preprocess, self.recorded, str(path), required=self.required
            )
            table = (
                NpzTable(path)
                if suffix == ".npz"
                else NpyTable(path, get_only_input_name(self.inputs, path.name))
            )
            return open_table(table, self.inputs, path.name, images, path.parent)
        raise DataError(
            f"{path}: unknown kind of data; give a folder of images, WAV files, texts or .npz; a .txt, an .npz, "
            "an .npy, .tar or .parquet files, or module:callable"
        )


def _list_matches(pattern: str) -> FolderListing:
    """The files of this machine that match a pattern; their folder is the part before it."""
    base, names = match_files(pattern)
    found = [name for name in names if not is_hidden(name)]
    if not found:
        raise DataError(f"{pattern}: there is no such file")
    listing = classify_files(base, found, sorted({n.split("/")[0] for n in found if "/" in n}))
    return replace(listing, is_selection=True)


def _has_text_labels(path: Path) -> bool:
    """Whether an .npz has labels that are texts. Digits may be names of a list too."""
    labels = NpzTable(path).headers.get("labels") if path.suffix.lower() == ".npz" else None
    return labels is not None and labels.dtype.kind == "U"


def _fetch_class_list(url: str, folder: Path) -> None:
    """Fetch the list of classes beside a file, if there is one. A signature may be that of the file alone.

    Names that none numbers are refused when they are read.

    Raises:
        DataError: Whether there is one cannot be found out.
    """
    place = remote.without_query(url)
    beside = f"{place.rpartition('/')[0]}/{CLASS_LIST}{url.removeprefix(place)}"
    try:
        (folder / CLASS_LIST).write_bytes(remote.read(beside))
    except (FileNotFoundError, PermissionError):
        return
    except OSError as error:
        raise DataError(f"{folder / CLASS_LIST}: cannot be read: {error.strerror}") from error


@contextmanager
def _rename_in_errors(folder: Path, title: str) -> Iterator[None]:
    """Errors name a URL in place of the temporary folder."""
    try:
        yield
    except PtqError as error:
        if str(folder) not in str(error):
            raise
        raise type(error)(str(error).replace(str(folder), title)) from error
