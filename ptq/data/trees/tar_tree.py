"""Members of tar shards as a tree of files, grouped by key as WebDataset writes them.

Arrays of one key become one .npz: ``key.npy`` feeds the only input, and ``key.INPUT.npy`` the input of that name. The
label of an .npz becomes its array ``labels``.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core import remote
from ptq.core.errors import DataError
from ptq.data.folder import is_hidden, pick_samples
from ptq.data.labels.class_names import CLASS_LIST
from ptq.data.trees.tar_index import index_tar
from ptq.data.trees.tar_labels import TarLabels
from ptq.data.trees.tar_samples import LABEL_SUFFIXES, TarSample, list_tar_samples
from ptq.data.trees.tree import MAX_FILE_BYTES, require_safe_names
from ptq.observers.npz_bytes import encode_arrays

_LABELS_ARRAY = "labels"
_ARRAYS = ".npz"


class TarTree:
    """The samples of tar shards.

    If a sample's name occurs in several, the names of the shards stand before all names. If only other names do, such
    as ``labels.csv``, they stand before these.
    """

    def __init__(self, places: Sequence[str], only_input: str | None) -> None:
        """List the members.

        Args:
            places: Paths or URLs of the shards.
            only_input: The input that ``key.npy`` feeds; None if the model has several inputs.

        Raises:
            DataError: A shard cannot be read, is truncated, is no uncompressed tar file, or is given twice. Or a
                sample has the name of another one. Or a label cannot be understood.
        """
        self.title = remote.redact(places[0]) + (
            f" … {len(places)} shards" if len(places) > 1 else ""
        )
        self.is_remote = any(remote.as_url(place) is not None for place in places)
        self._only_input = only_input
        self._files: dict[str, TarSample] = {}
        self.shard_of: dict[str, str] = {}
        self.labels: dict[str, tuple[str | int, ...]] = {}
        self._labels_of_arrays: dict[str, NDArray[Any]] = {}
        shards, contents = list[list[TarSample]](), list[Mapping[str, bytes]]()
        for place in places:
            members, small = index_tar(place, LABEL_SUFFIXES)
            visible = [member for member in members if not is_hidden(member.name)]
            shards.append(list_tar_samples(visible, place))
            contents.append(small)
        often = Counter(sample.name for shard in shards for sample in shard)
        samples = set(pick_samples(often))
        repeated = {name for name, count in often.items() if count > 1}
        named = often.keys() if repeated & samples else (often.keys() - samples if repeated else ())
        prefixes = _name_shards(places) if repeated else [""] * len(places)
        reader = TarLabels(has_class_list=CLASS_LIST in often)
        for place, shard, small, prefix in zip(places, shards, contents, prefixes, strict=True):
            for sample in shard:
                name = sample.name
                if sample.name in named:
                    name = prefix + sample.name
                    self.shard_of[name] = prefix
                self._files[name] = sample
                if sample.name in samples:
                    _require_single(sample, place)
                    self._keep_label(name, reader.read(sample, small), reader)
        self.label_notes = reader.notes
        require_safe_names(self._files, self.title)

    def _keep_label(
        self, name: str, label: tuple[str | int, ...] | None, reader: TarLabels
    ) -> None:
        if label is None:
            return
        if not name.lower().endswith(_ARRAYS):
            self.labels[name] = label
        elif (array := reader.to_array(label, self._files[name])) is not None:
            self._labels_of_arrays[name] = array

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each sample, and of each other file."""
        return {name: sum(m.size for m in file.parts) for name, file in self._files.items()}

    def read(self, name: str) -> bytes:
        """Content of a member, or of an .npz of the arrays of one key."""
        sample = self._files[name]
        if sum(part.size for part in sample.parts) > MAX_FILE_BYTES:
            raise DataError(
                f"{self.title} member {name}: is larger than {MAX_FILE_BYTES >> 20} MiB"
            )
        label = self._labels_of_arrays.get(name)
        if sample.joins_arrays:
            return self._join_arrays(sample, label)
        content = sample.parts[0].read()
        return (
            content if label is None else _add_label(content, label, f"{self.title} member {name}")
        )

    def _join_arrays(self, sample: TarSample, label: NDArray[Any] | None) -> bytes:
        arrays: dict[str, Any] = {} if label is None else {_LABELS_ARRAY: label}
        for part in sample.parts:
            kind = part.name[len(sample.key) : -len(".npy")].lstrip(".")
            key = kind or self._only_input
            if key is None:
                raise DataError(
                    f"{self.title} member {part.name}: the model has several inputs; name each member "
                    "key.INPUT.npy"
                )
            try:
                stream = io.BytesIO(part.read())
                arrays[key] = np.lib.format.read_array(stream, allow_pickle=False)
            except (ValueError, EOFError, OSError) as error:
                reason = " ".join(str(error).split())
                raise DataError(
                    f"{self.title} member {part.name}: not an array: {reason}"
                ) from error
        return encode_arrays(arrays)


def _require_single(sample: TarSample, place: str) -> None:
    """Refuse a sample that has the name of another one of its shard; of other files, the last one counts."""
    if sample.repeated:
        raise DataError(
            f"{remote.redact(place)}: has two members named {sample.repeated}; give each sample a key of its own"
        )


def _name_shards(places: Sequence[str]) -> list[str]:
    """What stands before the names of each shard's members: its name, and as many folders as tell shards apart.

    Raises:
        DataError: A shard is given twice.
    """
    twice = next((place for place, count in Counter(places).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{remote.redact(twice)}: is given twice; give each shard once")
    paths = [PurePosixPath(remote.get_path(place)).with_suffix("").parts for place in places]
    for depth in range(1, max(map(len, paths)) + 1):
        if len({path[-depth:] for path in paths}) == len(paths):
            return ["/".join((*path[-depth:], "")) for path in paths]
    return [f"{number}/" for number in range(len(places))]  # only their queries differ


def _add_label(content: bytes, label: NDArray[Any], where: str) -> bytes:
    """An .npz with one more array; what is no .npz stays as it is, and is refused where it is read.

    Raises:
        DataError: It has labels of its own.
    """
    stream = io.BytesIO(content)
    if not zipfile.is_zipfile(stream):
        return content
    array = io.BytesIO()
    np.save(array, label)
    try:
        with zipfile.ZipFile(stream, "a") as archive:
            if f"{_LABELS_ARRAY}.npy" in archive.namelist():
                raise DataError(
                    f"{where}: has an array {_LABELS_ARRAY!r}, and a label beside it; keep one"
                )
            archive.writestr(f"{_LABELS_ARRAY}.npy", array.getvalue())
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError):
        return content
    return stream.getvalue()
