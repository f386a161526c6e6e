"""Output paths, JSON, and the list of skipped samples."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import typer

from ptq.core import files, remote
from ptq.core.errors import PtqError, UnwrittenError, UsageError
from ptq.core.option_checks import find_similar
from ptq.core.wording import plural

from .given_files import find_replaced_input, list_given_files
from .invocation import STANDARD_OUTPUT, describe_origin, get_current_invocation
from .one_line import to_one_line
from .verbosity import is_quiet

MAX_LISTED_SAMPLES = 100
"""Bad samples listed on standard error; the JSON report lists all."""


def choose_default_output(model: Path, form: str = "qdq") -> Path:
    """Default output of ``quantize``, in the current folder; it has no part of the query of a model's URL."""
    url = remote.as_url(model)
    name = model if url is None else Path(remote.get_path(remote.redact(url)))
    return Path(f"{name.stem}.int8.{'tflite' if form == 'tflite' else 'onnx'}")


def choose_form(form: str | None, output: Path | None) -> Any:
    """The form that is asked for, or that the name of the output means.

    Raises:
        UsageError: The two contradict each other, or the name nearly ends in ``.tflite``.
    """
    suffix = "" if output is None else output.suffix
    is_tflite = suffix == ".tflite"
    if form is None and not is_tflite and find_similar(suffix, [".onnx", ".tflite"]) == ".tflite":
        raise UsageError(
            f"output {output} ends in {suffix}: is it a .tflite file? name it so, or give --format for an ONNX model"
        )
    if form is None:
        return "tflite" if is_tflite else "qdq"
    if output is not None and is_tflite != (form == "tflite"):
        end = ".tflite" if form == "tflite" else ".onnx"
        raise UsageError(
            f"output {output} is not of format {form}{describe_origin('format')}; give a name that ends in {end}"
        )
    return form


def check_also(also: Path | None, output: Path, form: str) -> None:
    """Check that a second file is the ONNX model beside a `.tflite` file.

    Raises:
        UsageError: It is not.
    """
    if also is None:
        return
    if form != "tflite":
        raise UsageError(
            f"--also {also} is an ONNX model beside a .tflite file, and output {output} is none; "
            "give the .tflite file as -o and the ONNX model as --also"
        )
    if also.suffix == ".tflite":
        raise UsageError(f"--also {also} is the ONNX model; give a name that ends in .onnx")


def check_outputs(
    inputs: Iterable[Path | str | None],
    outputs: Iterable[Path | None],
    json: str | None = None,
    *,
    room: int = 0,
    resumed: Path | None = None,
    appended: Path | None = None,
    no_clobber: bool = False,
) -> tuple[Path, ...]:
    """Check before long work that every output can be written and that no output is an input.

    Args:
        inputs: Files that the command reads, models with the files of their weights; ``module:callable`` is
            allowed too.
        outputs: Files that the command writes; None for outputs that were not requested.
        json: Path of the JSON result; ``-`` is standard output.
        room: Bytes that the first output may need.
        resumed: An output that may exist, because the command continues from it.
        appended: An output that may exist, because the command appends to it.
        no_clobber: Refuse outputs that exist.

    Returns:
        The outputs that exist and will be replaced.

    Raises:
        UsageError: An output is an input (also through a link), two outputs are one file, a path is empty, an
            output other than JSON is ``-``, an output exists and ``no_clobber`` is set, its folder cannot be
            written, or its bucket does not exist.
        PtqError: There is too little room for an output.
    """
    given = [source for source in inputs if source is not None]
    if "" in given:
        raise UsageError("a path of samples is empty; give a file, a folder or module:callable")
    sources = [*map(Path, given), *list_given_files()]
    paths = [path for path in (*outputs, resumed, appended) if path is not None]
    if Path(STANDARD_OUTPUT) in paths:
        raise UsageError("only --json can write to standard output; replace - by a file name")
    if json not in (None, STANDARD_OUTPUT):
        paths.append(Path(json))
    for index, path in enumerate(paths):
        files.check_writable(path, 0 if index else room)
    existing = [path for path in paths if files.has_file(path)]
    if existing:  # weights, and what a pattern names, are files that exist
        sources += [file for source in sources for file in list_weight_files(source)]
    for index, path in enumerate(paths):
        for source in sources:
            if files.is_same_file(path, source):
                raise UsageError(f"output {path} is the input {source} itself; give another name")
            if (
                os.path.exists(path)
                and os.path.isdir(source)
                and path.resolve().is_relative_to(source.resolve())
            ):
                raise UsageError(
                    f"output {path} is a file in the input folder {source}; give another name"
                )
        read = find_replaced_input(path, sources) if path in existing else None
        if read is not None:
            raise UsageError(
                f"output {path} would replace {read}, which the command reads; give another name"
            )
        for other in paths[:index]:
            if files.is_same_file(path, other):
                raise UsageError(f"two outputs have the path {path}; give each its own name")
    kept = [path for path in (resumed, appended) if path is not None]
    replaced = tuple(path for path in paths if path not in kept and files.has_file(path))
    for path in paths:
        if path not in replaced:
            files.check_bucket(path)
    if no_clobber and replaced:
        raise UsageError(
            f"output {replaced[0]} exists and --no-clobber is set; give another name or remove it"
        )
    get_current_invocation().json = json
    return replaced


def list_weight_files(model: Path) -> Sequence[Path]:
    """The files beside an ``.onnx`` file that hold its weights; none for other files."""
    if model.suffix != ".onnx":
        return ()
    from ptq.model.open import (
        list_model_files,  # loads onnx, which errors and operator tables do not need
    )

    return list_model_files(model)[1:]


def print_replaced(replaced: Sequence[Path]) -> None:
    """Name on standard error the files that the command replaced."""
    for path in () if is_quiet() else replaced:
        typer.echo(f"replaced {to_one_line(str(path))}", err=True)


def check_model_output(
    model: Path,
    inputs: Iterable[Path | str | None],
    outputs: Sequence[Path | None],
    json: str | None,
    *,
    resumed: Path | None,
    appended: Path | None,
    no_clobber: bool,
) -> tuple[Path, ...]:
    """Run `check_outputs` for a command that writes a model made from another model.

    All files of the input model are protected. The first output may need as many bytes as the input model; a
    quantized model needs fewer.

    Returns:
        The outputs that exist and will be replaced.

    Raises:
        UsageError: See `check_outputs`.
        PtqError: See `check_outputs`.
    """
    from ptq.model.open import list_model_files

    sources = list_model_files(model)
    room = sum(file.stat().st_size for file in sources if os.path.isfile(file))
    return check_outputs(
        [*sources, *inputs], outputs, json,
        room=room, resumed=resumed, appended=appended, no_clobber=no_clobber,
    )  # fmt: skip


def print_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """List skipped bad samples with their reasons on standard error."""
    if not skipped or is_quiet():
        return
    typer.echo(f"skipped {plural(len(skipped), 'bad sample')}:", err=True)
    for _, reason in skipped[:MAX_LISTED_SAMPLES]:
        typer.echo(f"  {to_one_line(reason)}", err=True)
    if len(skipped) > MAX_LISTED_SAMPLES:
        typer.echo(f"  and {len(skipped) - MAX_LISTED_SAMPLES} more", err=True)


def keep_unwritten(error: UnwrittenError) -> Path | None:
    """Write what a store refuses to a new file of the current folder, and return it; None if that fails too."""
    name = Path(error.place.rpartition("/")[2] or "output")
    numbered = (name.with_stem(f"{name.stem}.{k}") for k in range(1, 100))
    free = next((path for path in (name, *numbered) if not os.path.lexists(path)), None)
    if free is None:
        return None
    try:
        files.write(free, error.content)
    except PtqError:
        return None
    return free


def write_json(document: str, path: str | None) -> bool:
    """Write JSON to a file or standard output; return whether it went to standard output.

    Raises:
        PtqError: The file cannot be written.
    """
    if path is None:
        return False
    if path == STANDARD_OUTPUT:
        (get_current_invocation().stdout or sys.stdout).write(document)
        return True
    files.write(Path(path), document.encode())
    return False
