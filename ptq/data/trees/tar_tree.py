"""Members of tar shards as a tree of files, grouped by key as WebDataset writes them.

The key of a member is its name up to the first dot after the last slash; the rest is its kind. Members of one key are
one sample: an image, a WAV file, a text or arrays, with the label in ``.cls`` or ``.json``. Arrays of one key become
one .npz: ``key.npy`` feeds the only input, and ``key.INPUT.npy`` the input of that name.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from ptq.core import remote
from ptq.core.errors import DataError
from ptq.data.folder import SAMPLE_SUFFIXES, is_hidden
from ptq.data.trees.tar_index import TarMember, index_tar
from ptq.data.trees.tree import MAX_FILE_BYTES, require_safe_names

_LABEL_KINDS = (".cls", ".json")
_LABELS_ARRAY = "labels"
_CLASS_NUMBER = re.compile(r"-1|[0-9]{1,9}")
"""The label of arrays; other texts, such as a caption, are none."""
_JSON_KEYS = ("label", "cls", "class", "labels")


class TarTree:
    """The samples of tar shards; if a name occurs in several, the names of the shards stand before all names."""

    def __init__(self, places: Sequence[str], only_input: str | None) -> None:
        """List the members.

        Args:
            places: Paths or URLs of the shards.
            only_input: The input that ``key.npy`` feeds; None if the model has several inputs.

        Raises:
            DataError: A shard cannot be read, is truncated, is no uncompressed tar file, or is given twice. Or two of
                its members have one name.
        """
        self.title = remote.show(places[0]) + (
            f" … {len(places)} shards" if len(places) > 1 else ""
        )
        self.is_remote = any(remote.as_url(place) is not None for place in places)
        self._only_input = only_input
        self._files: dict[str, list[TarMember]] = {}
        self.labels: dict[str, str] = {}
        indexed = [index_tar(place, _LABEL_KINDS) for place in places]
        often = Counter(
            name
            for members, _ in indexed
            for name in {m.name for m in members if not is_hidden(m.name)}
        )
        repeated = any(count > 1 for count in often.values())
        self._labels_of_arrays: dict[str, int] = {}
        prefixes = _name_shards(places) if repeated else [""] * len(places)
        for place, (members, small), prefix in zip(places, indexed, prefixes, strict=True):
            _require_distinct(members, place)
            self._add_shard(members, small, prefix)
        require_safe_names(self._files, self.title)

    def _add_shard(
        self, members: Sequence[TarMember], small: Mapping[str, bytes], prefix: str
    ) -> None:
        grouped: dict[str, list[TarMember]] = {}
        for member in members:
            if is_hidden(member.name):
                continue
            grouped.setdefault(split_key(member.name)[0], []).append(member)
        for key, group in grouped.items():
            label = _find_label(small, group)
            for name, parts in _list_samples(key, group).items():
                self._files[prefix + name] = parts
                if label is not None and not _joins_arrays(name, parts):
                    self.labels[prefix + name] = label
                elif label is not None and _CLASS_NUMBER.fullmatch(label):
                    self._labels_of_arrays[prefix + name] = int(label)

    @property
    def sizes(self) -> Mapping[str, int]:
        """Bytes of each sample, and of each other file."""
        return {name: sum(m.size for m in parts) for name, parts in self._files.items()}

    def read(self, name: str) -> bytes:
        """Content of a member, or of an .npz of the arrays of one key."""
        parts = self._files[name]
        if sum(part.size for part in parts) > MAX_FILE_BYTES:
            raise DataError(
                f"{self.title} member {name}: is larger than {MAX_FILE_BYTES >> 20} MiB"
            )
        if not _joins_arrays(name, parts):
            return parts[0].read()
        return self._join_arrays(parts, self._labels_of_arrays.get(name))

    def _join_arrays(self, parts: Sequence[TarMember], label: int | None) -> bytes:
        arrays: dict[str, Any] = {} if label is None else {_LABELS_ARRAY: np.array(label)}
        for part in parts:
            kind = split_key(part.name)[1].removesuffix("npy").rstrip(".")
            key = kind or self._only_input
            if key is None:
                raise DataError(
                    f"{self.title} member {part.name}: the model has several inputs; name each member "
                    "key.INPUT.npy"
                )
            try:
                arrays[key] = np.load(io.BytesIO(part.read()), allow_pickle=False)
            except (ValueError, EOFError, OSError) as error:
                reason = " ".join(str(error).split())
                raise DataError(
                    f"{self.title} member {part.name}: not an array: {reason}"
                ) from error
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()


def _name_shards(places: Sequence[str]) -> list[str]:
    """What stands before the names of each shard's members: its name, and as many folders as tell shards apart.

    Raises:
        DataError: A shard is given twice.
    """
    twice = next((place for place, count in Counter(places).items() if count > 1), None)
    if twice is not None:
        raise DataError(f"{remote.show(twice)}: is given twice; give each shard once")
    paths = [PurePosixPath(remote.without_query(place)).with_suffix("").parts for place in places]
    for depth in range(1, max(map(len, paths)) + 1):
        if len({path[-depth:] for path in paths}) == len(paths):
            return ["/".join((*path[-depth:], "")) for path in paths]
    return [f"{number}/" for number in range(len(places))]  # only their queries differ


def _require_distinct(members: Sequence[TarMember], place: str) -> None:
    """Raise DataError if two members have one name: a sample would be lost."""
    often = Counter(member.name for member in members if _is_sample_or_label(member.name))
    twice = next((name for name, count in often.items() if count > 1), None)
    if twice is not None:
        raise DataError(
            f"{remote.show(place)}: has two members named {twice}; give each sample a key of its own"
        )


def _is_sample_or_label(name: str) -> bool:
    return name.lower().endswith((*SAMPLE_SUFFIXES, ".npy", *_LABEL_KINDS))


def split_key(name: str) -> tuple[str, str]:
    """The key of a member and its kind: ``a/b.seg.png`` is ``a/b`` and ``seg.png``."""
    folder, slash, base = name.rpartition("/")
    stem, _, kind = base.partition(".")
    return f"{folder}{slash}{stem}", kind


def _joins_arrays(name: str, parts: Sequence[TarMember]) -> bool:
    return name.endswith(".npz") and parts[0].name.lower().endswith(".npy")


def _list_samples(key: str, group: Sequence[TarMember]) -> dict[str, list[TarMember]]:
    """The files that the members of one key make, by name; arrays become one file."""
    arrays = [member for member in group if member.name.lower().endswith(".npy")]
    files = {m.name: [m] for m in group if m not in arrays and not m.name.endswith(_LABEL_KINDS)}
    plain = [n for n in files if f".{split_key(n)[1].lower()}" in SAMPLE_SUFFIXES]
    if plain:  # an image beside masks of the same key
        files = {name: files[name] for name in plain}
    elif arrays:
        files[f"{key}.npz"] = sorted(arrays, key=lambda member: member.name)
    return files


def _find_label(small: Mapping[str, bytes], group: Sequence[TarMember]) -> str | None:
    """The label of a key: the text of its ``.cls``, or the entry ``label`` or ``cls`` of its ``.json``."""
    for kind in _LABEL_KINDS:
        for member in group:
            if not member.name.endswith(kind) or member.name not in small:
                continue
            text = small[member.name].decode("utf-8", "replace").strip()
            if kind == ".cls":
                return text
            try:
                record = json.loads(text)
            except ValueError:
                continue
            found = (
                [record[k] for k in _JSON_KEYS if k in record] if isinstance(record, dict) else []
            )
            label = found[0] if found else None
            if isinstance(label, float) and label.is_integer():
                label = int(label)
            if isinstance(label, (int, str)) and not isinstance(label, bool):
                return str(label)
    return None
