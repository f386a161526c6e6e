"""Results of an earlier run that are used again: statistics, or a plan."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.core.plan import Plan
from ptq.model.graph import Graph
from ptq.observers.calibration_file import Calibration


@dataclass(frozen=True, eq=False)
class Given:
    """Statistics or a plan of an earlier run; each belongs to one graph, known by its digest.

    Attributes:
        stats: Statistics that replace calibration; None to calibrate.
        plan: A plan that is applied unchanged; None to solve one.
    """

    stats: Calibration | None = None
    plan: Plan | None = None

    @property
    def digest(self) -> str | None:
        """The digest of the graph that they belong to; None where nothing is given."""
        if self.plan is not None:
            return self.plan.graph
        return None if self.stats is None else self.stats.graph

    def belongs_to(self, graph: Graph) -> bool:
        """Whether something is given, and for this graph."""
        return self.digest == graph.digest()


NOTHING_GIVEN = Given()
