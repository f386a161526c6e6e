"""Verb ``ptq.merge_statistics``: statistics of all shards of the samples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ptq.calibration.calibration import open_statistics
from ptq.core.errors import StatsError, UsageError
from ptq.core.option_checks import refuse_unknown_options, require_flag
from ptq.core.remote import redact
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
    return merge_named(
        (
            NamedStatistics(_name_source(each, number), stats)
            for number, each in enumerate(given)
            if (stats := open_statistics(each)) is not None
        ),
        allow_missing_shards=allow_missing_shards,
        allow_mixed_processors=allow_mixed_processors,
    )


@dataclass(frozen=True)
class NamedStatistics:
    """Statistics, and what messages call them."""

    name: str
    statistics: Calibration


def _name_source(given: Calibration | str | os.PathLike[str], number: int) -> str:
    return f"statistics[{number}]" if isinstance(given, Calibration) else redact(Path(given))


@contextmanager
def name_statistics(name: str) -> Iterator[None]:
    """Let an error begin with the name of the statistics that do not go with others."""
    try:
        yield
    except StatsError as error:
        raise StatsError(f"{name}: {error}") from None


def merge_named(
    found: Iterable[NamedStatistics], *, allow_missing_shards: bool, allow_mixed_processors: bool
) -> Calibration:
    """Merge statistics as `merge_statistics` does, and forget each before the next.

    Raises:
        StatsError: As there. The text names the first ones that do not go with those before.
        UsageError: There are none.
    """

    def merge(first: Calibration | None, second: Calibration | None) -> Calibration | None:
        if first is None or second is None:
            return second if first is None else first
        return first.merge(second, allow_mixed_processors=allow_mixed_processors)

    # The result names no samples if one part names none. So those that do are merged apart, and checked together.
    named: Calibration | None = None
    nameless: Calibration | None = None
    for each in found:
        with name_statistics(each.name):
            if each.statistics.identity is None:
                nameless = merge(nameless, each.statistics)
            else:
                named = merge(named, each.statistics)
    identity = None if named is None else named.identity
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
            elsewhere = (
                "" if nameless is None else ", or in older statistics, which name no samples"
            )
            raise StatsError(
                f"{format_shards(missing)} of {whose} {verb} missing{elsewhere}; merge all "
                "shards, or set `allow_missing_shards`"
            )
    merged = merge(named, nameless)
    if merged is None:
        raise UsageError("no statistics to merge; give at least one", "statistics")
    return merged
