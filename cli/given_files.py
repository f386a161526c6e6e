"""The files that the running command reads, whatever option names them: no output may replace one."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ptq.core import files, remote

from .invocation import get_current_invocation

READ_OPTIONS = frozenset(
    {"alphabet", "boxes", "config", "cost-table", "preprocess", "tokenizer", "transcripts"}
)
"""Options that name a file to read, beside those of models, samples, statistics and plans."""
_CALLABLES = ("data", "eval", "metric")
"""Options that may be ``module:callable``."""


def list_given_files() -> Iterator[Path]:
    """The files that options of the running command name, and its file of options."""
    invocation = get_current_invocation()
    for name in sorted(READ_OPTIONS & invocation.options.keys()):
        yield Path(invocation.options[name])
    if invocation.config:
        yield Path(invocation.config)


def find_replaced_input(path: Path, sources: Sequence[Path]) -> str | None:
    """What an output that exists would replace of a pattern, of a folder of links or of a module; None if nothing.

    Args:
        path: The output.
        sources: What the command reads.
    """
    options = get_current_invocation().options
    modules = [str(options[name]) for name in _CALLABLES if name in options]
    for source in sources:
        if os.path.isdir(source):
            found = None if remote.as_url(path) is not None else _find_link(path, source)
        else:
            found = next(_match(path, str(source)), None)
        if found is not None:
            return str(found)
    return next((name for name in modules if _is_file_of(path, name)), None)


def _find_link(path: Path, folder: Path) -> Path | None:
    """The link in a folder to a file, or to a folder that holds it; None if there is none."""
    target, waiting = path.resolve(), [os.fspath(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:  # reading the folder will say so
            continue
        for entry in entries:
            if entry.is_symlink():
                if target.is_relative_to(os.path.realpath(entry.path)):
                    return Path(entry.path)
            elif entry.is_dir():
                waiting.append(entry.path)
    return None


def _match(path: Path, text: str) -> Iterator[Path]:
    """The files of a pattern, or of a folder at a URL, that are the output."""
    from ptq.data.places import expand_braces, has_pattern

    for place in expand_braces(text):
        url, own = remote.as_url(place), remote.as_url(path)
        if url is not None:
            named: Iterable[str] = [own] if own is not None and _is_read_at(url, own) else []
        else:
            named = glob.iglob(place, recursive=True) if has_pattern(place) else [place]
        yield from (one for one in map(Path, named) if files.is_same_file(path, one))


def _is_read_at(url: str, own: str) -> bool:
    """Whether an object is that of a URL, matches its pattern or lies in its folder."""
    read, written = remote.get_path(url), remote.get_path(own)
    return (
        written == read or fnmatchcase(written, read) or written.startswith(f"{read.rstrip('/')}/")
    )


def _is_file_of(path: Path, reference: str) -> bool:
    """Whether a file is the source of a module that ``module:callable`` names."""
    module, colon, _ = reference.partition(":")
    if path.suffix != ".py" or not colon:
        return False
    part = module.replace(".", os.sep)
    places = [Path(base, part) for base in (os.getcwd(), *sys.path)]
    return any(
        files.is_same_file(path, file)
        for place in places
        for file in (place.with_suffix(".py"), place / "__init__.py")
    )
