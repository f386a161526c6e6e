"""Statistics or a plan of an earlier run that this run uses again.

Each belongs to one graph. A stage that rewrites the graph before calibration therefore follows one rule:

1. If they belong to the unchanged graph, the stage leaves it unchanged.
2. Otherwise the stage rewrites the graph, and keeps the rewritten graph only if they belong to it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ptq.calibration.calibration import open_statistics
from ptq.calibration.kept_source import open_kept_samples
from ptq.core.option_checks import require_path
from ptq.core.plan import Plan
from ptq.data import Samples
from ptq.data.preprocessing.recorded_preprocess import RecordedPreprocess
from ptq.model.graph import Graph
from ptq.observers.calibration_file import Calibration
from ptq.rewrite.prepare.prepare import PreparedModel
from ptq.solver.recipe import AUTO, MethodName, RoundingMethod


@dataclass(frozen=True, eq=False)
class Given:
    """Statistics or a plan of an earlier run; each names its graph by a digest.

    Attributes:
        stats: Statistics that replace calibration; None to calibrate.
        plan: A plan that is applied unchanged; None to solve one.
        is_calibrated_anew: Whether the samples that the statistics keep decide all rewrites. The statistics then
            count where no rewrite is chosen.
    """

    stats: Calibration | None = None
    plan: Plan | None = None
    is_calibrated_anew: bool = False

    def open_kept_samples(self) -> Samples | None:
        """The samples that the statistics keep; None without any, and with a plan."""
        if self.plan is not None or self.stats is None or self.stats.kept is None:
            return None
        recorded = self.recorded
        return open_kept_samples(
            self.stats.kept, None if recorded is None else recorded.to_options()
        )

    def find_wider_statistics(self, graph: Graph, samples: int) -> Calibration | None:
        """The statistics of this graph, if the samples that they keep decide and they count more; else None."""
        stats = self.stats if self.is_calibrated_anew else None
        if stats is None or stats.samples <= samples or stats.graph != graph.digest():
            return None
        return stats

    @property
    def _decides_nothing(self) -> bool:
        """Whether the statistics keep all their samples, which decide all anew."""
        stats = self.stats
        keeps_all = (
            stats is not None and stats.kept is not None and len(stats.kept.feeds) == stats.samples
        )
        return self.is_calibrated_anew and keeps_all

    @property
    def replaced(self) -> list[str]:
        """What replaces decisions or the calibration."""
        statistics = None if self._decides_nothing else self.stats
        given = {"plan": self.plan, "statistics": statistics}
        return [name for name, value in given.items() if value is not None]

    @property
    def prepared_digest(self) -> str | None:
        """The digest of the prepared graph that they belong to; None if nothing is given, or all is decided anew."""
        if self.plan is not None:
            return self.plan.graph
        return None if self.stats is None or self._decides_nothing else self.stats.graph

    @property
    def digest(self) -> str | None:
        """The digest of the graph that they belong to; None if nothing is given, or kept samples decide."""
        return None if self.is_calibrated_anew else self.prepared_digest

    @property
    def names(self) -> set[str]:
        """The tensors and float nodes that they name."""
        if self.plan is not None:
            return {*self.plan.tensors, *self.plan.floats}
        return set() if self.stats is None else set(self.stats.tensors)

    @property
    def recorded(self) -> RecordedPreprocess | None:
        """The preprocessing that the plan records, else that of the statistics; None if none does."""
        if self.plan is not None and self.plan.preprocess is not None:
            return RecordedPreprocess(self.plan.preprocess, "the plan")
        if self.stats is not None and self.stats.preprocess is not None:
            return RecordedPreprocess(self.stats.preprocess, "the statistics")
        return None

    def belongs_to(self, graph: Graph) -> bool:
        """Whether something is given, and for this graph."""
        return self.digest is not None and self.digest == graph.digest()

    def allows(self, rewritten: Graph) -> bool:
        """Whether a rewritten graph may be used: nothing is given, or it is for this graph."""
        return self.digest is None or self.belongs_to(rewritten)

    def leave_unchanged(self, prepared: PreparedModel, technique: str) -> PreparedModel:
        """The model unchanged; with a note if statistics, not a plan, are the reason."""
        if self.plan is not None:
            return prepared
        note = f"{technique}: not applied (the given statistics belong to the model without it)"
        return prepared.with_note(note)


NOTHING_GIVEN = Given()


def list_left_out(*, rounding: RoundingMethod, method: MethodName) -> tuple[str, ...]:
    """What statistics alone cannot decide, because it needs calibration samples.

    Args:
        rounding: How weights are to be rounded.
        method: The range method that is asked for.
    """
    return (
        *(
            ("second-order weight rounding", "error compensation")
            if rounding == "second-order"
            else ()
        ),
        *(("comparison of range methods",) if method == AUTO else ()),
    )


def open_given(
    stats: Calibration | str | os.PathLike[str] | None, plan: Plan | str | os.PathLike[str] | None
) -> Given:
    """Statistics and a plan, each read from its file if a path is given.

    Raises:
        StatsError: The statistics are missing, damaged, or of another kind.
        PlanError: The plan is missing, or is none.
        UsageError: One is neither the object nor a path.
    """
    if plan is not None and not isinstance(plan, Plan):
        require_path("plan", plan, "a Plan")
        plan = Plan.load(plan)
    return Given(open_statistics(stats), plan)
