"""Labels of boxes and texts as the user names them → labels of the samples that are measured."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ptq.core.errors import UsageError
from ptq.core.option_checks import require_path
from ptq.data import Preprocess, Samples
from ptq.data.box_labels import read_box_labels
from ptq.data.labels.alphabet import read_alphabet
from ptq.data.labels.labelled_boxes import NO_BOXES, BoxLabels
from ptq.data.labels.text_labels import read_text_labels
from ptq.data.preprocessing.exporter_metadata import read_names
from ptq.evaluation.tasks.task import NO_LABELS, TaskLabels, TaskName
from ptq.model.graph import Graph

PathOption = str | os.PathLike[str] | None


@dataclass(frozen=True)
class LabelOptions:
    """Files of labels.

    Attributes:
        boxes: COCO's JSON file, or a folder of YOLO's text files.
        transcripts: A table or lines of texts.
        alphabet: The texts of a recognizer's classes; None for those of the model's metadata.
    """

    boxes: PathOption = None
    transcripts: PathOption = None
    alphabet: PathOption = None

    def __post_init__(self) -> None:
        for name in ("boxes", "transcripts", "alphabet"):
            if getattr(self, name) is not None:
                require_path(name, getattr(self, name))
        for name in ("transcripts", "alphabet"):
            if self.boxes is not None and getattr(self, name) is not None:
                raise UsageError(f"a model finds boxes or reads texts; give `boxes` or `{name}`")

    def check_task(self, task: TaskName | None, metric: object) -> None:
        """Require that the task has such labels.

        Args:
            task: The task that is asked for; None for none.
            metric: A metric of the user; it measures in place of a task.

        Raises:
            UsageError: It has none.
        """
        for given, name, needed in (
            (self.boxes, "boxes", "detect"),
            (self.transcripts, "transcripts", "ctc"),
        ):
            if given is not None and metric is not None:
                raise UsageError(f"a metric measures in place of `{name}`; give one of the two")
            if given is not None and task not in (None, needed):
                raise UsageError(f"`{name}` are labels of task {needed}, not of task {task}")
        if self.alphabet is not None and (metric is not None or task not in (None, "ctc")):
            measure = f"task {task}" if metric is None else "a metric"
            raise UsageError(
                f"`alphabet` belongs to task ctc, and has no effect with {measure}; leave it out"
            )

    def read(self, opened: Samples | None, graph: Graph) -> TaskLabels:
        """The labels of the samples.

        Args:
            opened: The samples that are measured; None without.
            graph: The model, whose metadata may name the classes.

        Raises:
            UsageError: Boxes are given and the samples are no folder of images.
            DataError: A file cannot be read or understood.
        """
        if opened is None:
            return NO_LABELS
        return TaskLabels(
            boxes=NO_BOXES if self.boxes is None else _read_boxes(Path(self.boxes), opened, graph),
            texts={}
            if self.transcripts is None
            else read_text_labels(Path(self.transcripts), opened.every_name),
            alphabet=() if self.alphabet is None else read_alphabet(Path(self.alphabet)),
        )


NO_LABEL_OPTIONS = LabelOptions()


def _read_boxes(labels: Path, opened: Samples, graph: Graph) -> BoxLabels:
    """The labelled boxes of a folder of images, in pixels of the model's input."""
    applied = opened.preprocess
    if not isinstance(applied, Preprocess) or opened.folder is None:
        raise UsageError("`boxes` belong to images; give a folder of images as `data`")
    names = read_names(graph.metadata)
    return read_box_labels(labels, opened.folder, opened.names, opened.every_name, applied, names)
