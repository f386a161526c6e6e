"""Which of the things that are known to ruin quantized models are found here?

Each bound is far from what sound models show: a suspect is worth a look.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ptq.core.plan import Plan
from ptq.data import Samples
from ptq.evaluation.report import Diagnosis, TensorRow
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.stats import TensorStats

MIN_SAMPLES = 8
"""Samples below which a range is a guess."""
OUTLIER_RATIO = 1000.0
"""A tensor's range over the median of all."""
POOR_SQNR_DB = 20.0
"""Signal over error below which a tensor suffers from its scale; far above it, sound models show odd ranges too."""
DEAD_CHANNEL_SHARE = 0.5
"""Share of a tensor's channels that are 0 on all samples; trained networks show up to a seventh."""
_MIN_CHANNELS = 8
"""Of fewer, some may well be idle."""
POOR_SHARED_SQNR_DB = 3.0
"""The same of a tensor that shares a scale: half of it is error."""


def diagnose(
    plan: Plan,
    stats: Mapping[str, TensorStats],
    rows: Sequence[TensorRow],
    calibration: Samples | None,
    channels: Mapping[str, ChannelSums] | None = None,
) -> tuple[Diagnosis, ...]:
    """What a plan, and what it was made from, show.

    Args:
        plan: The plan.
        stats: Statistics by tensor.
        rows: The report's tensors.
        calibration: The samples that ranges were chosen on, if they are known.
        channels: Sums by channel, of what weighted nodes read.
    """
    return (
        *_diagnose_samples(calibration),
        *_diagnose_outliers(plan, stats, rows),
        *_diagnose_overflowing_biases(rows),
        *_diagnose_shared_scales(rows),
        *_diagnose_dead_channels(stats, channels or {}),
    )


def _diagnose_samples(calibration: Samples | None) -> Iterator[Diagnosis]:
    if calibration is None:
        return
    way = calibration.preprocess
    if way is not None and way.assumed:
        yield Diagnosis(
            way.assumed,
            "preprocessing",
            "if the model was trained otherwise, say how: --mean 0 --std 1 for plain 0 … 1, --scale 1 for 0 … 255, "
            "or its own --mean and --std",
        )
    count = len(calibration)
    if count < MIN_SAMPLES:
        yield Diagnosis(
            f"ranges are chosen on {count} sample{'' if count == 1 else 's'} alone",
            "calibration samples",
            "give 100 or more, of all kinds",
        )
    folders = {name.split("/")[0] for name in calibration.names}
    if len(calibration.classes) > 1 and len(folders) == 1 and count > 1:
        yield Diagnosis(
            f"all are of one class, {min(folders)}, of {len(calibration.classes)}",
            "calibration samples",
            "give samples of every class",
        )


def _diagnose_outliers(
    plan: Plan, stats: Mapping[str, TensorStats], rows: Sequence[TensorRow]
) -> Iterator[Diagnosis]:
    reach = {
        name: max(abs(stats[name].min), abs(stats[name].max))
        for name in plan.tensors
        if name in stats and stats[name].count
    }
    median = float(np.median(list(reach.values()))) if reach else 0.0
    for row in rows:
        size = reach.get(row.name, 0.0)
        if row.sqnr_db < POOR_SQNR_DB and size > OUTLIER_RATIO * median > 0:
            yield Diagnosis(
                f"reaches {size:.3g}, {size / median:.0f} times the median of all tensors",
                row.name,
                "leave the nodes around it float with --skip, or use --max-drop",
            )


def _diagnose_overflowing_biases(rows: Sequence[TensorRow]) -> Iterator[Diagnosis]:
    for row in rows:
        if row.sqnr_db < POOR_SQNR_DB and "for the bias to fit int32" in row.why:
            yield Diagnosis(
                f"its bias would overflow int32 ({row.why}), which leaves it {row.sqnr_db:.1f} dB",
                row.name,
                "leave its node float with --skip, or use --max-drop",
            )


def _diagnose_shared_scales(rows: Sequence[TensorRow]) -> Iterator[Diagnosis]:
    for row in rows:
        if (
            row.kind == "activation"
            and row.why.startswith("same:")
            and row.sqnr_db < POOR_SHARED_SQNR_DB
        ):
            yield Diagnosis(
                f"shares a scale that is too coarse for it, {row.sqnr_db:.1f} dB ({row.why})",
                row.name,
                "leave the node that makes it share float with --skip",
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
        others = f", as are many of {len(dead) - 1} other tensors" if len(dead) > 1 else ""
        count, size = dead[worst]
        yield Diagnosis(
            f"{count} of its {size} channels are 0 on all samples{others}",
            worst,
            "calibrate on samples of all kinds, prepared as for training, or the model has learnt little",
        )
