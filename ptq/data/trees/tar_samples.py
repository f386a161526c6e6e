"""Which members of a tar shard make a sample, and which of them may hold its label.

The key of a member is its name up to the first dot after the last slash; the rest is its kind. Members of one key are
one sample: an image, a WAV file, a text or arrays, with the label in ``key.cls`` or ``key.json``. Beside an image
``key.png``, others of its key are masks. Without it each is a sample, and ``key.cls`` is the label of all.

Some names have further dots, such as ``camera.000.png``. If ``camera.000.cls`` labels them and there is no
``camera.png``, then ``camera.000`` is the key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ptq.core import remote
from ptq.core.errors import DataError
from ptq.data.folder import SAMPLE_SUFFIXES
from ptq.data.trees.tar_index import TarMember

LABEL_SUFFIXES = (".cls", ".json")
"""Suffixes of members that hold labels, the surest first."""
_ARRAY = ".npy"


@dataclass(frozen=True)
class TarSample:
    """A file that members of a shard make: a sample, or another file.

    Attributes:
        name: Its name in the shard.
        key: Its key.
        parts: Its member, or the arrays of its key.
        labels: Members that may hold its label, the surest first.
        unused: Name of a .cls of its key that is no label, if there is none that is; else empty.
        repeated: Name that another member has too, of its parts or labels; else empty.
    """

    name: str
    key: str
    parts: tuple[TarMember, ...]
    labels: tuple[TarMember, ...]
    unused: str
    repeated: str

    @property
    def joins_arrays(self) -> bool:
        """Whether it is an .npz of the arrays of its key."""
        return self.parts[0].name.lower().endswith(_ARRAY)


def list_tar_samples(members: Sequence[TarMember], place: str) -> list[TarSample]:
    """The samples and other files of a shard.

    Args:
        members: The members of the shard.
        place: Path or URL of the shard.

    Raises:
        DataError: It is uncertain which of several members is the sample or its label.
    """
    grouped: dict[str, list[TarMember]] = {}
    for member in members:
        grouped.setdefault(_find_key(member.name), []).append(member)
    return [sample for key, group in grouped.items() for sample in _list_of_key(key, group, place)]


def _find_key(name: str) -> str:
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}{base.partition('.')[0]}"


def _list_of_key(key: str, group: Sequence[TarMember], place: str) -> Iterator[TarSample]:
    labels = _index_labels(group, place)
    looks = [member.name for (_, suffix), member in labels.items() if suffix == LABEL_SUFFIXES[0]]
    split = _split_group(key, group, labels, place)
    often = Counter(member.name for member in group)
    for inner, members in split.items():
        stems = [inner]
        while stems[-1] != key:
            stems.append(stems[-1].rpartition(".")[0])
        ways = [(stem, suffix) for stem in stems for suffix in LABEL_SUFFIXES]
        found = tuple(labels[way] for way in ways if way in labels)
        unused = looks[0] if looks and not found and len(split) == 1 else ""
        for name, parts in _list_files(inner, members, place).items():
            repeated = next((m.name for m in (*parts, *found) if often[m.name] > 1), "")
            yield TarSample(name, inner, parts, found, unused, repeated)


def _index_labels(group: Sequence[TarMember], place: str) -> dict[tuple[str, str], TarMember]:
    """Members that may hold labels, by their name without suffix and the suffix in lower case."""
    labels: dict[tuple[str, str], TarMember] = {}
    for member in group:
        stem, _, last = member.name.rpartition(".")
        way = (stem, f".{last.lower()}")
        if way[1] not in LABEL_SUFFIXES:
            continue
        if way in labels and labels[way].name != member.name:
            raise DataError(
                f"{remote.redact(place)}: has both {labels[way].name} and {member.name}; keep one label for each key"
            )
        labels[way] = member
    return labels


def _split_group(
    key: str,
    group: Sequence[TarMember],
    labels: Collection[tuple[str, str]],
    place: str,
) -> Mapping[str, Sequence[TarMember]]:
    """The members of a key by longer keys, if labels of samples have such.

    Raises:
        DataError: A sample has a label of its own, and the key has another sample, of which it may be the mask.
    """
    is_array = any(member.name.lower().endswith(_ARRAY) for member in group)
    suffixes = LABEL_SUFFIXES[:1] if is_array else LABEL_SUFFIXES  # arrays have .json of their own
    stems = {stem for stem, suffix in labels if suffix in suffixes and stem != key}
    whole = next((m.name for m in group if _is_whole(key, m.name)), None)
    if not stems:
        return {key: group}
    if whole is not None:
        own = (
            m.name for m in group if not _is_whole(key, m.name) and _has_own_label(m.name, labels)
        )
        if (name := next(own, None)) is not None:
            raise DataError(
                f"{remote.redact(place)} member {name}: has a label of its own, but its key up to the first dot is "
                f"that of {whole}; give each sample a name without further dots"
            )
        return {key: group}
    split: dict[str, list[TarMember]] = {}
    for member in group:
        inner = member.name
        while inner != key and inner not in stems:
            inner = inner.rpartition(".")[0]
        split.setdefault(inner, []).append(member)
    return split


def _has_own_label(name: str, labels: Collection[tuple[str, str]]) -> bool:
    """Whether a sample has a .cls whose name differs in the suffix alone."""
    stem = name.rpartition(".")[0]
    return _is_whole(stem, name) and (stem, LABEL_SUFFIXES[0]) in labels


def _is_whole(key: str, name: str) -> bool:
    """Whether a member alone is the sample of a key."""
    return name.startswith(f"{key}.") and name[len(key) :].lower() in (
        *SAMPLE_SUFFIXES,
        _ARRAY,
        ".npz",
    )


def _list_files(
    key: str, group: Sequence[TarMember], place: str
) -> dict[str, tuple[TarMember, ...]]:
    """The files that the members of one key make, by name; arrays become one file.

    Raises:
        DataError: The key has arrays, and an .npz too.
    """
    arrays = [member for member in group if member.name.lower().endswith(_ARRAY)]
    files: dict[str, tuple[TarMember, ...]] = {
        m.name: (m,) for m in group if not m.name.lower().endswith((_ARRAY, *LABEL_SUFFIXES))
    }
    plain = [name for name in files if name[len(key) :].lower() in SAMPLE_SUFFIXES]
    if plain:  # an image beside masks of the same key
        return {name: files[name] for name in plain}
    if arrays:
        joined = f"{key}.npz"
        if joined in files:
            raise DataError(
                f"{remote.redact(place)}: has both {joined} and {arrays[0].name}; keep one feed for each key"
            )
        files[joined] = tuple(sorted(arrays, key=lambda member: member.name))
    return files
