"""GitHub Actions: job summaries in Markdown, and annotations.

Annotations are workflow commands on standard error, which the runner reads too; standard output may hold JSON.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from .verbosity import is_quiet

if TYPE_CHECKING:
    from ptq.evaluation.exports.summary import Summary


def append_summary(path: Path | None, summarize: Callable[[], Summary | str]) -> None:
    """Append a result as Markdown to a file, as ``$GITHUB_STEP_SUMMARY`` wants it, on a line of its own.

    Args:
        path: The file; None for nothing.
        summarize: Returns the result in short, or its Markdown.

    Raises:
        PtqError: The file cannot be written.
    """
    if path is None:
        return
    from ptq.core.errors import PtqError
    from ptq.evaluation.exports.markdown import render_markdown

    found = summarize()
    text = found if isinstance(found, str) else render_markdown(found)
    try:
        with open(path, "a+b") as stream:
            length = stream.seek(0, os.SEEK_END)
            stream.seek(max(length - 1, 0))
            start = "" if stream.read() in (b"", b"\n") else "\n"
            stream.write(f"{start}{text.rstrip()}\n\n".encode(errors="replace"))
    except OSError as error:
        raise PtqError(
            f"{path} cannot be written: {error.strerror}; choose another place"
        ) from None


def write_annotations(level: Literal["error", "warning"], messages: Iterable[str]) -> None:
    """Show messages at the run and at the pull request in a job of GitHub Actions; with ``-q`` errors only."""
    if os.environ.get("GITHUB_ACTIONS") != "true" or (level == "warning" and is_quiet()):
        return
    for message in messages:
        typer.echo(f"::{level} title=ptq::{escape_message(message)}", err=True)


def escape_message(text: str) -> str:
    """Text of a workflow command, escaped as GitHub's own toolkit does (actions/toolkit, command.ts)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
