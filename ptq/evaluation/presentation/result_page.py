"""A result of a verb that measures, as one self-contained HTML page: warnings, verdict, sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from ptq.core.topics import Topic, name_command
from ptq.evaluation.diagnosis import Diagnosis, explain_warnings
from ptq.evaluation.presentation.cards import build_cards
from ptq.evaluation.presentation.verdict import VerdictFigure
from ptq.page.page import Page, Section
from ptq.page.render import render_html


class Warned(Protocol):
    """A result with warnings."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must know before any figure."""
        ...

    @property
    def suspects(self) -> tuple[Diagnosis, ...]:
        """Known causes of bad figures; they are among the warnings."""
        ...


def render_result(
    title: str,
    subtitle: str,
    result: Warned,
    figures: Iterable[VerdictFigure],
    sections: Sequence[Section],
    topics: Sequence[Topic] = (),
) -> str:
    """The page as an HTML document.

    Args:
        title: What was done, to which model.
        subtitle: One line under the title.
        result: The result.
        figures: Its verdict.
        sections: Its sections.
        topics: Sections of docs/troubleshooting.md that its figures lead to.
    """
    return render_html(
        Page(
            title,
            subtitle,
            tuple(explain_warnings(result.warnings, result.suspects)),
            build_cards(figures),
            tuple(sections),
            questions=name_command(*topics) if topics else "",
            serious=sum(suspect.serious for suspect in result.suspects),
        )
    )
