"""The outputs of several forms of a model on samples, in batches, on all processes of the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.core.run_options import RunOptions, TrackedItems, untrack_items
from ptq.data import Sample, Samples
from ptq.data.sample_source import name_sample
from ptq.data.workers.sample_map import SampleMap
from ptq.data.workers.sample_parts import Part
from ptq.evaluation.runs.engines import Engine
from ptq.evaluation.runs.reference import DigestedOutputs

Opener = Callable[[], Engine]
"""Opens an engine; it can be pickled."""
_FormOutputs = dict[str, list[NDArray[Any]]]
KnownOutputs = Mapping[str, DigestedOutputs]
"""Outputs of a form, by the name of the sample."""
_KnownForms = Mapping[str, DigestedOutputs]
"""Outputs on a sample, by form."""
_MAX_BATCH_BYTES = 2**21
"""Bytes of samples that run at once; the integers of a convolution take about 40 times as many."""
_PART = 4
"""Samples of a part at most, unless a batch has more."""
_THREAD_SECONDS = 3.0
"""Time below which threads of this process run the forms: another process opens them in about 0.4 s.

Threads gain less where layers are small, as they wait for the interpreter's lock: 102 samples of EfficientNet-Lite0
took 4.2 s on two threads and 4.0 s on two processes (medians of six), where its calibration lets expect 3.9 s.
"""


def run_forms(
    engines: Mapping[str, Engine],
    samples: Iterable[Sample],
    batch: int,
    openers: Mapping[str, Opener | None],
    run: RunOptions,
    known: Mapping[str, KnownOutputs] | None = None,
) -> Iterator[tuple[Sample, _FormOutputs]]:
    """Run all forms on the samples; yield each sample with the outputs of each form.

    With openers, samples of different shapes form batches within parts, on any number of processes alike.

    Args:
        engines: The engine of each form.
        samples: The samples.
        batch: Number of samples of equal shape that run at once, up to 2 MB.
        openers: Open the engines in another process; None for an engine that runs in this one, after the others.
            Empty to run all in this one.
        run: How the job runs.
        known: By form, outputs that are known; they count where the digest of the sample is the same.

    Raises:
        DataError: A form fails on a sample; the text names it.
    """
    items = untrack_items(samples)
    if not openers or not isinstance(items, (Samples, list)):
        for group in split_into_batches(samples, batch):
            yield from run_groups(engines, [group])
        return
    assert isinstance(samples, (TrackedItems, Samples, list))
    first = next(items.read_good() if isinstance(items, Samples) else iter(items), None)
    size = 1 if first is None else choose_part_size(batch, first)
    elsewhere = {name: opener for name, opener in openers.items() if opener is not None}
    here = {name: engine for name, engine in engines.items() if name not in elsewhere}
    opened = partial(_run_part, {name: engines[name] for name in elsewhere}, batch)
    parts = SampleMap(
        _FormsJob(elsewhere, batch), run, opened, runs=1, thread_seconds=_THREAD_SECONDS
    )
    arguments = _list_known(known, items.names) if known and isinstance(items, Samples) else ()
    for found in parts.map(samples, least=size, most=size, arguments=arguments):
        own = run_groups(here, split_into_batches([sample for sample, _ in found], batch))
        for (sample, outputs), (_, more) in zip(found, own, strict=True):
            yield sample, {**outputs, **more}


def _list_known(
    known: Mapping[str, KnownOutputs], names: Sequence[str]
) -> list[tuple[str, _KnownForms]]:
    """What is known of each sample, with its name."""
    return [
        (name, {form: outputs[name] for form, outputs in known.items() if name in outputs})
        for name in names
    ]


def choose_part_size(batch: int, sample: Sample) -> int:
    """Samples of a part: whole batches of samples like this one."""
    of_batch = max(1, _limit_batch(batch, sample))
    return of_batch * max(1, _PART // of_batch)


@dataclass(frozen=True, eq=False)
class _FormsJob:
    openers: Mapping[str, Opener]
    batch: int

    def open(self) -> Callable[[Part], list[tuple[Sample, _FormOutputs]]]:
        engines = {name: _open_late(opener) for name, opener in self.openers.items()}
        return partial(_run_part, engines, self.batch)


def _open_late(opener: Opener) -> Engine:
    """An engine that is opened when it first runs: all outputs of a form may be known."""
    opened = cache(opener)
    return lambda feed: opened()(feed)


def _run_part(
    engines: Mapping[str, Engine], batch: int, part: Part
) -> list[tuple[Sample, _FormOutputs]]:
    samples, known = list(part.samples), dict[str, _KnownForms](part.arguments)
    found = {form: _find_known(form, samples, known) for form in engines}
    given = {form: outputs for form, outputs in found.items() if outputs is not None}
    others = {form: engine for form, engine in engines.items() if form not in given}
    return [
        (sample, {**outputs, **{form: each[index] for form, each in given.items()}})
        for index, (sample, outputs) in enumerate(
            run_groups(others, split_into_batches(samples, batch))
        )
    ]


def _find_known(
    form: str, samples: Sequence[Sample], known: Mapping[str, _KnownForms]
) -> list[list[NDArray[Any]]] | None:
    """The outputs of a form on samples, if they are known of each one as it is now."""
    found = [known.get(sample.name, {}).get(form) for sample in samples]
    if any(
        one is None or one[0] != sample.digest for sample, one in zip(samples, found, strict=True)
    ):
        return None
    return [one[1] for one in found if one is not None]


def run_groups(
    engines: Mapping[str, Engine], groups: Iterable[Sequence[Sample]]
) -> list[tuple[Sample, _FormOutputs]]:
    """The outputs of each sample. The forms run in turn: ONNX Runtime's threads wait busily after a run."""
    batches = list(groups)
    results = {
        name: [outputs for group in batches for outputs in _run_batch(engine, group)]
        for name, engine in engines.items()
    }
    return [
        (sample, {name: found[index] for name, found in results.items()})
        for index, sample in enumerate(sample for group in batches for sample in group)
    ]


def split_into_batches(samples: Iterable[Sample], size: int) -> Iterator[list[Sample]]:
    """Split samples into groups that stack along a leading axis of 1; a group has up to 2 MB, or one sample."""
    group: list[Sample] = []
    for sample in samples:
        if group and (
            len(group) >= _limit_batch(size, group[0]) or not _can_stack(group[0], sample)
        ):
            yield group
            group = []
        group.append(sample)
    if group:
        yield group


def _limit_batch(size: int, sample: Sample) -> int:
    return min(size, _MAX_BATCH_BYTES // max(sample.nbytes, 1))


def _can_stack(one: Sample, other: Sample) -> bool:
    return all(
        array.ndim > 0 and array.shape[0] == 1 and array.shape == other.feed[name].shape
        for name, array in one.feed.items()
    )


def _run_batch(engine: Engine, group: Sequence[Sample]) -> list[list[NDArray[Any]]]:
    """The outputs of each sample of a group.

    Shapes may allow more than a kernel does, and one bad sample fails its whole batch: then each sample runs alone.
    """
    if len(group) > 1:
        stacked = {
            name: np.concatenate([sample.feed[name] for sample in group]) for name in group[0].feed
        }
        with suppress(DataError):
            results = engine(stacked)
            if all(a.ndim > 0 and a.shape[0] == len(group) for a in results):
                return [[array[i : i + 1] for array in results] for i in range(len(group))]
    return [_run_alone(engine, sample) for sample in group]


def _run_alone(engine: Engine, sample: Sample) -> list[NDArray[Any]]:
    with name_sample(sample.name):
        return engine(sample.feed)
