"""What a text names as data: one place, or several by braces and patterns, on this machine or in a store."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ptq.core import remote
from ptq.core.errors import DataError, UsageError
from ptq.data.list_objects import list_objects

_BRACES = re.compile(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}")
MAX_PLACES = 10**5
"""Places that braces may stand for."""
_BESIDE = (".md", ".json", ".txt", ".csv")
SHARD_SUFFIXES = (".tar", ".parquet")
"""Files that hold many samples each."""


def expand_braces(text: str) -> list[str]:
    """The texts that ``{000..003}`` and ``{a,b}`` stand for, in order.

    Raises:
        UsageError: There are too many.
    """
    found = _BRACES.search(text)
    if found is None:
        return [text]
    first, last, choice = found.groups()
    if choice is None:
        width = len(first) if first.startswith("0") else 0
        numbers = range(int(first), min(int(last), int(first) + MAX_PLACES) + 1)
        words = [f"{number:0{width}}" for number in numbers]
    else:
        words = choice.split(",")
    rest = expand_braces(text[found.end() :])
    if not 0 < len(words) * len(rest) <= MAX_PLACES:
        raise UsageError(
            f"{remote.redact(text)}: {found[0]} stands for no place, or for more than {MAX_PLACES}"
        )
    return [text[: found.start()] + word + tail for word in words for tail in rest]


def has_pattern(text: str) -> bool:
    """Whether a text is a pattern of ``*``, ``?`` or ``[…]``, and no file of this machine."""
    return remote.split_pattern(text)[1] != "" and not os.path.exists(text)


def find_shards(text: str) -> list[str]:
    """The .tar or .parquet files that a text names: by their names, a pattern, or the folder that holds only such.

    Returns:
        Paths or URLs; empty if the text names something else.

    Raises:
        DataError: A file does not exist, or a place holds both kinds.
        UsageError: A package is missing, or braces stand for too many places.
    """
    places = expand_braces(text) if not os.path.exists(text) else [text]
    return require_one_kind(text, [shard for place in places for shard in _find_in(place)])


def require_one_kind(text: str, shards: list[str]) -> list[str]:
    """The shards that a text names.

    Raises:
        DataError: Some are .tar files, and some .parquet files.
    """
    kinds = {os.path.splitext(remote.without_query(shard))[1].lower() for shard in shards}
    if len(kinds) > 1:
        raise DataError(f"{remote.redact(text)}: holds both .tar and .parquet files; name one kind")
    return shards


def _find_in(place: str) -> list[str]:
    url = remote.as_url(place)
    is_shard = remote.without_query(place).lower().endswith(SHARD_SUFFIXES)
    if has_pattern(place):
        return _match_shards(place, url) if is_shard else []
    if url is not None:
        return [url] if is_shard else []
    if os.path.isdir(place):
        try:
            names = sorted(os.listdir(place))
        except OSError as error:
            raise DataError(f"{place}: cannot list the data: {error.strerror}") from error
        return select_shards([str(Path(place, name)) for name in names])
    if is_shard and not os.path.isfile(place):
        reason = "not a regular file" if os.path.exists(place) else "No such file or directory"
        raise DataError(f"{place}: cannot open the data: {reason}")
    return [place] if is_shard else []


def match_files(pattern: str) -> tuple[Path, list[str]]:
    """The part of a pattern that is a folder, and the files below it that match, sorted.

    Links are followed, each folder once and real folders before links to them, as in a folder of samples.
    """
    first, rest = remote.split_pattern(pattern)
    base = Path(first or ("/" if pattern.startswith("/") else "."))
    found: dict[tuple[str, str], tuple[int, str]] = {}
    folders: dict[str, tuple[str, int]] = {}
    names = glob.glob(rest, root_dir=base, recursive=True)
    for name in {Path(name).as_posix() for name in names if (base / name).is_file()}:
        folder, file = os.path.split(name)
        if folder not in folders:
            folders[folder] = os.path.realpath(base / folder), _count_links(base, name)
        real, links = folders[folder]
        way = links, name
        found[real, file] = min(found.get((real, file), way), way)
    return base, sorted(name for _, name in found.values())


def _count_links(base: Path, name: str) -> int:
    """Links among the folders of a file."""
    return sum((base / folder).is_symlink() for folder in Path(name).parents)


def _match_shards(pattern: str, url: str | None) -> list[str]:
    if url is None:
        folder, names = match_files(pattern)
        found = [str(folder / name) for name in names]
    else:
        try:
            found = [one.url for one in list_objects(url).values()]
        except OSError as error:
            raise DataError(
                f"{error.filename or remote.redact(url)}: cannot list the data: {error.strerror}"
            ) from error
    if not found:
        raise DataError(f"{remote.redact(pattern)}: there is no such file")
    return found


def select_shards(files: Sequence[str]) -> list[str]:
    """The shards among files; none if there are others but texts beside them."""
    shards = [file for file in files if file.lower().endswith(SHARD_SUFFIXES)]
    visible = [f for f in files if not os.path.basename(f).startswith((".", "_"))]
    others = [f for f in visible if not f.lower().endswith((*SHARD_SUFFIXES, *_BESIDE))]
    return [] if others else shards
