"""What do ``ptq calibrate``'s samples and earlier statistics come to, together?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

from ptq import api
from ptq.core.errors import UsageError
from ptq.data import Preprocess
from ptq.data.splits import SampleOptions
from ptq.model.open import open_model
from ptq.observers.calibration_file import Calibration, load
from ptq.rewrite.prepare.prepare import open_and_prepare


def collect_and_merge(
    model: Path,
    data: str | None,
    earlier: Sequence[Path],
    *,
    preprocess: Preprocess | None,
    samples: int | None,
    shard: tuple[int, int] | None,
    skip_bad_samples: bool,
    batch: int,
    threads: int,
    workers: int,
    checkpoint: Path | None,
    progress: Callable[[str, int | None], Callable[[], None]] | None,
) -> Calibration:
    """The statistics of the data, if any are given, merged with those in the files.

    Raises:
        UsageError: There is neither.
        ModelError: The model cannot be read or run.
        DataError: A sample is missing, unreadable or does not fit.
        StatsError: A file is damaged, or belongs to another model.
    """
    if data is None and not earlier:
        raise UsageError("there is nothing to observe; give --data, or statistics to --merge")
    parts = []
    if earlier:
        digest = open_and_prepare(model)[1].graph.digest()
        parts = [load(path, digest) for path in earlier]
    if data is not None:
        observed = api.calibrate(
            model, data, preprocess=preprocess, samples=samples, shard=shard,
            skip_bad_samples=skip_bad_samples, batch=batch, threads=threads,
            workers=workers, checkpoint=checkpoint, progress=progress,
        )  # fmt: skip
        parts.append(observed)
    return reduce(Calibration.merge, parts)


def image_preprocessing(
    model: Path, data: str | None, given: Preprocess | None
) -> Preprocess | None:
    """How the images of a folder are prepared for a model; None where the data are others."""
    if data is None or not Path(data).is_dir():
        return None
    return SampleOptions(given).open(data, open_model(model)).preprocess
