"""The page of a command (``--report``), with what only the command line knows: command, digests, output."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ptq.core.remote import redact

from .documents.write_document import digest_inputs
from .invocation import get_current_invocation

if TYPE_CHECKING:
    from ptq.page.page import RunFact


def write_page(
    place: Path | None,
    render: Callable[[Sequence[RunFact]], str],
    *,
    output: Path | None = None,
    following: str = "",
) -> None:
    """Write the page of a result.

    Args:
        place: The file; None for nothing.
        render: Returns the page, with these facts about the run.
        output: The main file that the command wrote.
        following: The command to run next; empty for none.

    Raises:
        PtqError: The file cannot be written.
    """
    if place is None:
        return
    from ptq.core import files
    from ptq.page.render import encode_html

    files.write(place, encode_html(render(_describe_run(output, following))))


def _describe_run(output: Path | None, following: str) -> list[RunFact]:
    facts = [("ptq", version("onnx-ptq"))]
    arguments = get_current_invocation().arguments or tuple(sys.argv[1:])
    facts.append(("command", shlex.join(["ptq", *map(redact, arguments)])))
    if output is not None:
        facts.append(("written", redact(output)))
    if following:
        facts.append(("next", redact(following)))
    return [
        *facts,
        *((f"digest of {name}", digest) for name, digest in digest_inputs(output).items()),
    ]
