"""Where may results go, and how do they get there?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ptq import files
from ptq.errors import UsageError

STANDARD_OUTPUT = "-"


def default_output(model: Path) -> Path:
    """Where ``quantize`` writes unless told: in the current folder."""
    return Path(f"{model.stem}.int8.onnx")


def check_outputs(inputs: Iterable[Path | str | None], outputs: Iterable[Path | str | None]) -> None:
    """Make sure, before long work, that every output can be written and none of them is an input.

    Raises:
        UsageError: An output is an input, also by another name, or two outputs are one file.
        PtqError: An output cannot be written.
    """
    sources = [Path(source) for source in inputs if source is not None]
    places = [Path(p) for p in outputs if p is not None and str(p) != STANDARD_OUTPUT]
    for index, place in enumerate(places):
        for source in sources:
            if _same(place, source):
                raise UsageError(
                    f"output {place} is the input {source} itself; give another name"
                )
        for other in places[:index]:
            if _same(place, other):
                raise UsageError(f"two outputs go to {place}; give each its own name")
        files.check_writable(place)


def write_json(document: str, place: str | None) -> bool:
    """Write JSON where the user wants it; True where standard output is taken by it.

    Raises:
        PtqError: The file cannot be written.
    """
    if place is None:
        return False
    if place == STANDARD_OUTPUT:
        sys.stdout.write(document)
        return True
    files.write(Path(place), document.encode())
    return False


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)  # through symbolic and hard links
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
