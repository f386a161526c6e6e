"""The check of a `.tflite` file in LiteRT before it is returned: its kernels against the executor's arithmetics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from ptq.core.errors import PtqError
from ptq.data.splits import SampleSplit
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.report.litert_result import LitertCheck, LitertKernelCheck
from ptq.evaluation.report.report_data import ReportData
from ptq.executor.litert_comparison import LitertComparison, compare_with_executor
from ptq.model.graph import Graph
from ptq.model.tflite.interpreter import Kernels, get_litert_version
from ptq.rewrite.tflite.write import TfliteFile

R = TypeVar("R", bound=ReportData)
_SAMPLES = 8
_MAX_DIFFERENCE = 0.05
"""The share of a float output's largest value by which float parts may change it: a few steps of 8 bits."""
_KERNELS: tuple[Kernels, ...] = ("reference", "xnnpack")


def add_litert_check(report: R, file: TfliteFile, graph: Graph, samples: SampleSplit) -> R:
    """The report with the check of the file; a difference that no float part explains is a serious finding.

    Args:
        report: The report.
        file: The file.
        graph: The QDQ graph from which it was written.
        samples: The samples of the run; without any, nothing is checked.
    """
    source = samples.evaluation or samples.calibration
    if source is None:
        return report
    feeds = [sample.feed for sample in islice(source, _SAMPLES)]
    found = []
    for kernels in _KERNELS:
        try:
            compared = compare_with_executor(
                file.content, graph, feeds, kernels=kernels, orders=file.orders,
                features=file.features,
            )  # fmt: skip
        except PtqError as error:
            found.append(LitertKernelCheck(kernels, "", not_run=str(error)))
        else:
            found.append(_summarize(compared))
    check = LitertCheck(get_litert_version(), len(feeds), tuple(found))
    return replace(
        report,
        litert=check,
        changes=(*report.changes, str(check)),
        suspects=(*report.suspects, *_find_differences(check)),
    )


def _summarize(compared: LitertComparison) -> LitertKernelCheck:
    tallies = [*compared.tensors.values(), *compared.outputs.values()]
    return LitertKernelCheck(
        compared.kernels,
        compared.arithmetic,
        sum(t.elements for t in tallies),
        sum(t.differing for t in tallies),
        "" if compared.first is None else compared.first[0],
        len(compared.islands),
        sum(t.differing for t in compared.float_parts.values()),
        max((t.largest for t in compared.float_parts.values()), default=0),
        max((t.largest_share for t in compared.outputs.values()), default=0.0),
    )


def _find_differences(check: LitertCheck) -> Iterator[Diagnosis]:
    for kernels in check.kernels:
        if kernels.float_largest > 1:
            yield Diagnosis(
                f"a float part differs by {kernels.float_largest} steps from ONNX Runtime's float",
                f"{kernels.name} of LiteRT {check.version}",
                "measure the accuracy in LiteRT, and report this with the model",
                serious=True,
            )
        is_wrong = kernels.output_difference > _MAX_DIFFERENCE
        if kernels.differing and (not kernels.float_islands or is_wrong):
            yield Diagnosis(
                f"LiteRT computes other values than the executor, first in {kernels.first}",
                f"{kernels.name} of LiteRT {check.version}",
                "measure the accuracy in LiteRT, and report this with the model",
                serious=True,
            )
