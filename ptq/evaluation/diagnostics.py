"""Known causes of large quantization errors, searched for in a plan and its calibration.

Every threshold is far from the values of sound models.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from ptq.core.plan import Plan
from ptq.core.wording import plural
from ptq.data import Samples
from ptq.evaluation.checks.preprocessing_check import diagnose_assumption
from ptq.evaluation.diagnosis import Diagnosis
from ptq.evaluation.report.report_data import TensorRow
from ptq.model.graph import Graph
from ptq.model.node import get_name, get_operator, list_values_read
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.stats import TensorStats

MIN_SAMPLES = 8
"""With fewer samples, a range is a guess."""
MIN_DISTINCT_SHARE = 0.5
"""Share of distinct samples; real data repeat few."""
OUTLIER_RATIO = 1000.0
"""Largest magnitude of a tensor over the median of all tensors."""
POOR_SQNR_DB = 20.0
"""Below this SQNR a tensor suffers from its scale; sound models have odd ranges too, but far above this SQNR."""
DEAD_CHANNEL_SHARE = 0.5
"""Share of a tensor's channels that are 0 on all samples; trained networks have up to a seventh."""
_MIN_CHANNELS = 8
"""With fewer channels, some may be unused in a sound model."""
POOR_SHARED_SQNR_DB = 3.0
"""The same for a tensor with a shared scale: at 3 dB half of its energy is error."""


def diagnose(
    plan: Plan,
    stats: Mapping[str, TensorStats],
    rows: Sequence[TensorRow],
    calibration: Samples | None,
    channels: Mapping[str, ChannelSums] | None = None,
    fixed: Collection[str] = (),
    classes: int = 0,
) -> tuple[Diagnosis, ...]:
    """Find known causes of large quantization errors.

    Args:
        plan: The plan.
        stats: Statistics by tensor.
        rows: Quantization error of each tensor.
        calibration: The calibration samples; None if only their statistics are given.
        channels: Channel sums of the inputs of nodes with weights, by tensor.
        fixed: Tensors that say nothing about the samples.
        classes: Number of classes of the model; 0 if unknown.
    """
    return (
        *_diagnose_samples(calibration, classes),
        *_diagnose_outliers(plan, stats, rows),
        *_diagnose_overflowing_biases(rows),
        *_diagnose_shared_scales(rows),
        *_diagnose_dead_channels(
            stats, {name: sums for name, sums in (channels or {}).items() if name not in fixed}
        ),
    )


def find_fixed_tensors(graph: Graph) -> frozenset[str]:
    """The tensors that no value of a sample changes, such as the first state of a recurrent layer."""
    varying = set(graph.inputs)
    fixed: list[str] = []
    for node in graph.nodes:
        read = () if get_operator(node) in ("Shape", "Size") else list_values_read(node)
        if varying.isdisjoint(read):
            fixed += map(get_name, node.outputs)
        else:
            varying.update(node.outputs)
    return frozenset(fixed)


def _diagnose_samples(calibration: Samples | None, classes: int) -> Iterator[Diagnosis]:
    if calibration is None:
        return
    yield from diagnose_assumption(calibration)
    count = len(calibration)
    if count < MIN_SAMPLES:
        yield Diagnosis(
            f"ranges are chosen on only {plural(count, 'sample')}",
            "calibration samples",
            "give 100 or more, of all kinds",
        )
    digests = calibration.digests.values()
    distinct = len({*digests})
    if distinct < MIN_DISTINCT_SHARE * len(digests):
        yield Diagnosis(
            f"only {distinct} of {len(digests)} {'is' if distinct == 1 else 'are'} distinct",
            "calibration samples",
            "give different ones; a list of one array that is filled again needs copies",
            serious=True,
        )
    folders = {name.split("/")[0] for name in calibration.names}
    known = len(calibration.classes)
    classes = max(known, classes if known else 0)
    if classes > 1 and len(folders) == 1 and count > 1:
        yield Diagnosis(
            f"all belong to one class of {classes}: {min(folders)}",
            "calibration samples",
            "give samples of every class",
        )


def _diagnose_outliers(
    plan: Plan, stats: Mapping[str, TensorStats], rows: Sequence[TensorRow]
) -> Iterator[Diagnosis]:
    magnitudes = {
        name: max(abs(stats[name].min), abs(stats[name].max))
        for name in plan.tensors
        if name in stats and stats[name].count
    }
    median = float(np.median(list(magnitudes.values()))) if magnitudes else 0.0
    for row in rows:
        magnitude = magnitudes.get(row.name, 0.0)
        if row.sqnr_db < POOR_SQNR_DB and magnitude > OUTLIER_RATIO * median > 0:
            yield Diagnosis(
                f"its largest magnitude is {magnitude:.3g}, {magnitude / median:.0f} times the median of all tensors",
                row.name,
                "keep the nodes around it in float (option skip), or give an accuracy budget (option max_drop)",
            )


def _diagnose_overflowing_biases(rows: Sequence[TensorRow]) -> Iterator[Diagnosis]:
    for row in rows:
        if row.sqnr_db < POOR_SQNR_DB and "for the bias to fit int32" in row.why:
            yield Diagnosis(
                f"its bias would overflow int32 ({row.why}); SQNR {row.sqnr_db:.1f} dB",
                row.name,
                "keep its node in float (option skip), or give an accuracy budget (option max_drop)",
            )


def _diagnose_shared_scales(rows: Sequence[TensorRow]) -> Iterator[Diagnosis]:
    for row in rows:
        if (
            row.kind == "activation"
            and row.why.startswith("same:")
            and row.sqnr_db < POOR_SHARED_SQNR_DB
        ):
            yield Diagnosis(
                f"its shared scale is too coarse; SQNR {row.sqnr_db:.1f} dB ({row.why})",
                row.name,
                "keep the node that makes it share the scale in float (option skip)",
            )


def _diagnose_dead_channels(
    stats: Mapping[str, TensorStats], channels: Mapping[str, ChannelSums]
) -> Iterator[Diagnosis]:
    dead: dict[str, tuple[int, int]] = {}
    for name, sums in channels.items():
        mean = sums.mean
        if mean is None or mean.size < _MIN_CHANNELS or name not in stats or stats[name].min < 0:
            continue
        count = int((mean == 0).sum())
        if count >= DEAD_CHANNEL_SHARE * mean.size:
            dead[name] = count, mean.size
    if dead:
        worst = max(dead, key=lambda name: dead[name][0] / dead[name][1])
        others = (
            f" (so are many of {plural(len(dead) - 1, 'other tensor')})" if len(dead) > 1 else ""
        )
        count, size = dead[worst]
        yield Diagnosis(
            f"{count} of its {size} channels are 0 on all samples{others}",
            worst,
            "calibrate on samples of all kinds, preprocessed as in training; or the model is poorly trained",
        )
