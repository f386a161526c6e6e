"""Verb ``ptq.merge_statistics``: statistics of all shards of the samples."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import reduce

from ptq.calibration.calibration import open_statistics
from ptq.core.errors import StatsError, UsageError
from ptq.core.option_checks import refuse_unknown_options, require_flag
from ptq.observers.calibration_file import Calibration
from ptq.observers.sample_identity import format_shards


@refuse_unknown_options
def merge_statistics(
    statistics: Calibration
    | str
    | os.PathLike[str]
    | Iterable[Calibration | str | os.PathLike[str]],
    *,
    allow_missing_shards: bool = False,
    allow_mixed_processors: bool = False,
) -> Calibration:
    """Merge the statistics of shards, or of several data sets; in any order, to the same bits.

    Files of older versions name no samples. A sample that they count twice is not found.

    Args:
        statistics: Statistics or their files, at least one.
        allow_missing_shards: Merge also if a shard of the samples is missing.
        allow_mixed_processors: Merge statistics of different kinds of processor too. Their last bits may differ.

    Raises:
        StatsError: A sample is counted twice, a shard is missing, or model, preprocessing or processors differ.
        UsageError: There are no statistics, or something else is given.
    """
    require_flag("allow_missing_shards", allow_missing_shards)
    require_flag("allow_mixed_processors", allow_mixed_processors)
    given = [statistics] if isinstance(statistics, (Calibration, str, os.PathLike)) else statistics
    if not isinstance(given, Iterable):
        raise UsageError(
            f"statistics of type {type(given).__name__} are no statistics; give a list of files or of Calibrations",
            "statistics",
        )
    found = [stats for stats in map(open_statistics, given) if stats is not None]
    if not found:
        raise UsageError("no statistics to merge; give at least one", "statistics")

    def merge(first: Calibration, second: Calibration) -> Calibration:
        return first.merge(second, allow_mixed_processors=allow_mixed_processors)

    # The result names no samples if one part names none. So those that do are merged first, and checked together.
    named = [stats for stats in found if stats.identity is not None]
    whole = [reduce(merge, named)] if named else []
    identity = whole[0].identity if whole else None
    merged = reduce(merge, [*whole, *(stats for stats in found if stats.identity is None)])
    if not allow_missing_shards and identity is not None:
        missing = identity.list_missing()
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            sets = len(identity.listings)
            whose = (
                "the samples"
                if sets == 1
                else f"{sets} data sets (their names, lengths or first rows differ)"
            )
            nameless = (
                ""
                if len(named) == len(found)
                else ", or in older statistics, which name no samples"
            )
            raise StatsError(
                f"{format_shards(missing)} of {whose} {verb} missing{nameless}; merge all "
                "shards, or set `allow_missing_shards`"
            )
    return merged
