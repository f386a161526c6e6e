"""Verb ``ptq.merge_statistics``: statistics of all shards of the samples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce

from ptq.calibration.calibration import open_statistics
from ptq.core.errors import StatsError, UsageError
from ptq.core.option_checks import refuse_unknown_options, require_flag
from ptq.observers.calibration_file import Calibration
from ptq.observers.sample_identity import format_shards


@refuse_unknown_options
def merge_statistics(
    statistics: Sequence[Calibration | str | os.PathLike[str]],
    *,
    allow_missing_shards: bool = False,
    allow_mixed_processors: bool = False,
) -> Calibration:
    """Merge the statistics of shards, or of several data sets; in any order, to the same bits.

    Args:
        statistics: Statistics or their files, at least one.
        allow_missing_shards: Merge also if a shard of the samples is missing.
        allow_mixed_processors: Merge statistics of different kinds of processor too. Their last bits may differ.

    Raises:
        StatsError: A sample is counted twice, a shard is missing, or model, preprocessing or processors differ.
        UsageError: There are no statistics.
    """
    require_flag("allow_missing_shards", allow_missing_shards)
    require_flag("allow_mixed_processors", allow_mixed_processors)
    found = [stats for stats in map(open_statistics, statistics) if stats is not None]
    if not found:
        raise UsageError("no statistics to merge; give at least one", "statistics")

    def merge(first: Calibration, second: Calibration) -> Calibration:
        return first.merge(second, allow_mixed_processors=allow_mixed_processors)

    merged = reduce(merge, found)
    if not allow_missing_shards and merged.identity is not None:
        missing = merged.identity.list_missing()
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            sets = len(merged.identity.listings)
            whose = (
                "the samples"
                if sets == 1
                else f"{sets} data sets (their names, lengths or first rows differ)"
            )
            raise StatsError(
                f"{format_shards(missing)} of {whose} {verb} missing; merge all shards, "
                "or set `allow_missing_shards`"
            )
    return merged
