"""The samples that statistics keep, as samples to calibrate on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptq.data import Sample, Samples
from ptq.data.labelling import Labelling
from ptq.data.preparation import Preparation
from ptq.observers.kept_samples import KeptSamples


def open_kept_samples(kept: KeptSamples, preprocess: Preparation | None) -> Samples:
    """The kept samples; ``preprocess`` says how they became arrays."""
    return Samples(_KeptSource(kept, preprocess))


class _KeptSource:
    """A source of samples without labels; see `ptq.data.sample.SampleSource`."""

    classes: tuple[str, ...] = ()
    labelling: Labelling = Labelling("")

    def __init__(self, kept: KeptSamples, preprocess: Preparation | None) -> None:
        self.preprocess = preprocess
        self._feeds = list(kept.by_identity.items())

    def positions(self, at_most: int | None = None) -> range:
        return range(len(self._feeds) if at_most is None else min(at_most, len(self._feeds)))

    def name(self, position: int) -> str:
        return f"kept sample {self.identity(position)}"

    def identity(self, position: int) -> str:
        return self._feeds[position][0]

    def highest_label(self, positions: Sequence[int] | None) -> int:
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            if position < len(self._feeds):
                yield Sample(self.name(position), dict(self._feeds[position][1]))
