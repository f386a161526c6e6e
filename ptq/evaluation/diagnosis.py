"""One warning of a report: what was found, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ptq.core.topics import Topic, name_command
from ptq.data.preprocessing.recorded_preprocess import AppliedPreprocess


@dataclass(frozen=True)
class Diagnosis:
    """A known cause of bad figures, found in one run.

    Attributes:
        what: The problem.
        where: Tensor, node, samples or option concerned.
        advice: What to do.
        serious: All other figures of the run mean little before this is resolved.
        headline: It stands in the first line of a report: the result is no gain, or cannot run.
        topic: Section of docs/troubleshooting.md that helps.
    """

    what: str
    where: str
    advice: str
    serious: bool = False
    headline: bool = False
    topic: Topic = "accuracy-collapsed"

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.advice}"


def sort_by_seriousness(suspects: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """The serious ones first; each kind in its order."""
    return tuple(sorted(suspects, key=lambda suspect: not suspect.serious))


def explain_warnings(warnings: Sequence[str], suspects: Sequence[Diagnosis]) -> Iterator[str]:
    """The warnings, each with the command that explains its symptom."""
    topics = {str(suspect): suspect.topic for suspect in suspects}
    for text in warnings:
        yield f"{text} ({name_command(topics[text])})" if text in topics else text


def list_warnings(
    applied: AppliedPreprocess | None, suspects: Sequence[Diagnosis]
) -> tuple[str, ...]:
    """What a reader must know before any figure: a preprocessing other than recorded, then the suspects."""
    differs = [applied.difference] if applied is not None and applied.difference else []
    return (*differs, *map(str, suspects))
