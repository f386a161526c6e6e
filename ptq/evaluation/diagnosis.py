"""One warning of a report: what was found, where, and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Diagnosis:
    """A known cause of bad figures, found in one run.

    Attributes:
        what: The problem.
        where: Tensor, node, samples or option concerned.
        advice: What to do.
        serious: All other figures of the run mean little before this is resolved.
        headline: It stands in the first line of a report, because the result is no gain.
    """

    what: str
    where: str
    advice: str
    serious: bool = False
    headline: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.advice}"
