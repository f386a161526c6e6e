"""A frontier with the plan of each point, and its files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptq.core import files
from ptq.core.errors import UsageError
from ptq.core.json_text import format_json
from ptq.core.plan import Plan
from ptq.evaluation.frontier import FrontierReport
from ptq.observers.calibration_file import Calibration

_STATISTICS, _POINTS = "statistics.npz", "frontier.json"
_PLAN = re.compile(r"point-\d+\.json")
"""Names of the files of a saved frontier."""


@dataclass(frozen=True, eq=False)
class Frontier:
    """A Pareto curve, and what writes any of its models without calibrating again.

    Attributes:
        report: The points.
        plans: The plan of each point, by its number.
        calibration: The statistics that the plans were solved from.
    """

    report: FrontierReport
    plans: Sequence[Plan]
    calibration: Calibration

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``frontier.json``, ``point-N.json`` (a plan each) and ``statistics.npz`` into a folder.

        Other plans there are removed if an earlier frontier left them: they belong to other points.

        Raises:
            PtqError: A file cannot be written.
        """
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                f"{folder}: cannot be made ({error.strerror}); give a folder"
            ) from None
        earlier = list_saved_files(place)
        has_points = place / _POINTS in earlier  # else the other plans are not of a frontier
        self.calibration.save(place / _STATISTICS)
        written = [place / f"point-{number}.json" for number in range(len(self.plans))]
        for path, plan in zip(written, self.plans, strict=True):
            plan.save(path)
        document = {"warnings": self.report.warnings, **vars(self.report)}
        document["points"] = [vars(point) for point in self.report.points]
        document["suspects"] = [vars(suspect) for suspect in self.report.suspects]
        files.write(place / _POINTS, format_json(document).encode())
        for path in earlier:
            if has_points and path not in written and _PLAN.fullmatch(path.name):
                path.unlink(missing_ok=True)


def list_saved_files(folder: str | os.PathLike[str]) -> list[Path]:
    """The files of a folder that `Frontier.save` replaces or removes; none if the folder does not exist."""
    place = Path(folder)
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    return [place / n for n in names if n in (_STATISTICS, _POINTS) or _PLAN.fullmatch(n)]
