"""What the user asks of a measurement of accuracy: metric or task, labels, budget."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.core.option_checks import require_number
from ptq.data import Samples
from ptq.evaluation.budget import check_budget
from ptq.evaluation.checks.noise_check import leave_noise_undecided
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.drop import Budget, Drop
from ptq.evaluation.tasks.label_options import LabelOptions
from ptq.evaluation.tasks.request import TaskRequest, require_task
from ptq.evaluation.tasks.task import TaskName
from ptq.evaluation.user_metric import Metric, require_metric
from ptq.model.graph import Graph


@dataclass(frozen=True)
class AccuracyOptions:
    """Options of the verbs that measure a model as it is.

    Attributes:
        max_drop: The accuracy budget in points of the metric; None for none.
        metric: A metric of the user; None for that of the task.
        task: What the outputs decide; None to recognize it.
        labels: Files of labels.
    """

    max_drop: float | None
    metric: Metric | None
    task: TaskName | None
    labels: LabelOptions

    def __post_init__(self) -> None:
        if self.max_drop is not None:
            object.__setattr__(self, "max_drop", require_number("max_drop", self.max_drop, least=0))
        if self.metric is not None:
            require_metric(self.metric)
        require_task(self.task, self.metric)
        self.labels.check_task(self.task, self.metric)

    def read_request(self, opened: Samples, graph: Graph) -> TaskRequest:
        """The task that is asked for, with the labels of the samples.

        Raises:
            UsageError: The labels do not belong to such samples.
            DataError: A file of labels cannot be read or understood.
        """
        return TaskRequest.from_graph(self.task, graph, self.labels.read(opened, graph))

    def check_drop(self, drop: Drop | None, noise: tuple[Diagnosis, ...]) -> Budget | None:
        """The drop compared with the budget; None without a drop or a budget.

        Args:
            drop: The measured drop.
            noise: What `check_noise` found; the budget is undecided then.
        """
        if drop is None or self.max_drop is None:
            return None
        return leave_noise_undecided(check_budget(drop, self.max_drop), noise)
