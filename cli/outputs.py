"""Where may results go, and how do they get there?"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ptq.core import files
from ptq.core.errors import UsageError
from ptq.evaluation.report import dump_json

from .one_line import one_line
from .screen import counted

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

STANDARD_OUTPUT = "-"
MAX_LISTED_SAMPLES = 100  # bad samples that are named on standard error; a report as JSON names all


def default_output(model: Path) -> Path:
    """Where ``quantize`` writes unless told: in the current folder."""
    return Path(f"{model.stem}.int8.onnx")


def check_outputs(
    inputs: Iterable[Path | str | None],
    outputs: Iterable[Path | None],
    json: str | None = None,
    *,
    room: int = 0,
) -> None:
    """Make sure, before long work, that every output can be written and none of them is an input.

    Args:
        inputs: What the command reads; a reference to a callable is no file and does no harm.
        outputs: Files that it writes, None where one is not asked for.
        json: Where its JSON goes; ``-`` is standard output.
        room: How many bytes the first output may take.

    Raises:
        UsageError: An output is an input, also by another name, two outputs are one file, a name is empty, or
            standard output is meant for anything but JSON.
        PtqError: An output cannot be written.
    """
    given = [source for source in inputs if source is not None]
    if "" in given:
        raise UsageError("a path of samples is empty; give a file, a folder or module:callable")
    sources = [Path(source) for source in given]
    places = [place for place in outputs if place is not None]
    if Path(STANDARD_OUTPUT) in places:
        raise UsageError("only --json goes to standard output; give the output - another name")
    if json not in (None, STANDARD_OUTPUT):
        places.append(Path(json))
    for index, place in enumerate(places):
        files.check_writable(place, 0 if index else room)
        for source in sources:
            if files.is_same_file(place, source):
                raise UsageError(f"output {place} is the input {source} itself; give another name")
            if (
                place.exists()
                and source.is_dir()
                and place.resolve().is_relative_to(source.resolve())
            ):
                raise UsageError(
                    f"output {place} is a file of the input {source}; give another name"
                )
        for other in places[:index]:
            if files.is_same_file(place, other):
                raise UsageError(f"two outputs go to {place}; give each its own name")


def check_model_output(
    model: Path,
    inputs: Iterable[Path | str | None],
    outputs: Sequence[Path | None],
    json: str | None = None,
) -> None:
    """`check_outputs` where a model is made of another, no file of which may be harmed.

    The first output is taken to need as much room as the model has; quantized, it will need less.

    Raises:
        UsageError: As there.
        PtqError: As there.
    """
    from ptq.model.open import model_files

    sources = model_files(model)
    room = sum(file.stat().st_size for file in sources if os.path.isfile(file))
    check_outputs([*sources, *inputs], outputs, json, room=room)


def print_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Say on standard error which bad samples were left out, and why."""
    if not skipped:
        return
    typer.echo(f"left out {counted(len(skipped), 'bad sample')}:", err=True)
    for _, reason in skipped[:MAX_LISTED_SAMPLES]:
        typer.echo(f"  {one_line(reason)}", err=True)
    if len(skipped) > MAX_LISTED_SAMPLES:
        typer.echo(f"  and {len(skipped) - MAX_LISTED_SAMPLES} more", err=True)


def to_json(result: DataclassInstance | Sequence[DataclassInstance], **more: object) -> str:
    """A result of ptq as JSON, with what its properties say."""
    if isinstance(result, Sequence):
        return dump_json([asdict(row) for row in result])
    further = {k: asdict(v) if is_dataclass(v) else v for k, v in more.items()}  # type: ignore[arg-type]
    return dump_json({**asdict(result), **further})


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
