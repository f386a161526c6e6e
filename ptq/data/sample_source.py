"""One sample, one that cannot be used, what reading shows, and what sources of samples have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.image_pattern import digest_pattern
from ptq.data.labelling import Labelling
from ptq.data.preparation import Preparation
from ptq.data.sample_digest import digest_feed

_V = TypeVar("_V")


@dataclass(frozen=True, eq=False)
class Sample:
    """One feed of the model.

    Attributes:
        name: File or row of the sample, e.g. ``cats/7.png`` or ``data.npz[12]``; for messages.
        feed: Arrays by input name, with the shapes and types of the model's inputs.
        labels: Acceptable classes; empty if the sample is not labelled.
    """

    name: str
    feed: dict[str, NDArray[Any]]
    labels: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes of the feed."""
        return sum(array.nbytes for array in self.feed.values())

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the feed: the identity of the sample by content."""
        return digest_feed(self.feed)

    @cached_property
    def pattern(self) -> bytes | None:
        """Identity of an image up to scale, mean and std (`ptq.data.image_pattern`); None for other samples."""
        return digest_pattern(self.feed)


@dataclass(frozen=True)
class FoundSamples:
    """What reading samples has shown so far, by position in their source.

    Attributes:
        digests: Digest of each good sample.
        patterns: Pattern of each good image.
        bad: Name and reason of each bad sample that was left out.
    """

    digests: dict[int, bytes] = field(default_factory=dict)
    patterns: dict[int, bytes] = field(default_factory=dict)
    bad: dict[int, tuple[str, str]] = field(default_factory=dict)

    def at(self, positions: Sequence[int]) -> FoundSamples:
        """What is known of some positions."""

        def select(known: Mapping[int, _V]) -> dict[int, _V]:
            return {p: known[p] for p in positions if p in known} if known else {}

        return FoundSamples(select(self.digests), select(self.patterns), select(self.bad))

    def update(self, other: FoundSamples) -> None:
        """Take what another process has found."""
        self.digests.update(other.digests)
        self.patterns.update(other.patterns)
        self.bad.update(other.bad)
        for position in other.digests.keys() & self.bad.keys() - other.bad.keys():
            del self.bad[position]


def refuse_bad(skipped: Sequence[tuple[str, str]]) -> None:
    """Raise an error of samples of which none is good; nothing if there are none at all.

    Args:
        skipped: Name and reason of each bad sample.

    Raises:
        DataError: There is a bad sample.
    """
    if skipped:
        raise DataError(
            f"all {len(skipped)} samples that were read are bad; the first: {skipped[0][1]}"
        )


@contextmanager
def name_sample(name: str, advice: str = "") -> Iterator[None]:
    """Name the sample in errors of the model that runs on it.

    Args:
        name: The sample's name.
        advice: What stands behind the error.

    Raises:
        DataError: The model fails on the sample; the text names it.
    """
    try:
        yield
    except DataError as error:
        raise DataError(f"{name}: {error}{advice}") from error


class SampleSource(Protocol):
    """A source of samples in a fixed order; every position is one sample."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the class folders, in label order; empty if there are none."""
        ...

    @property
    def preprocess(self) -> Preparation | None:
        """Preprocessing of each image, WAV file or text; None if the samples are arrays."""
        ...

    @property
    def labelling(self) -> Labelling:
        """Where the labels come from, if there are any."""
        ...

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``."""
        ...

    def name(self, position: int) -> str:
        """Name of the sample in messages."""
        ...

    def identity(self, position: int) -> str:
        """Text that stays the same if samples are added: relative path, or index."""
        ...

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """Highest label of the positions (None: all) without reading samples; -1 if none is known."""
        ...

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Samples at ascending positions. A source of unknown length stops at its end."""
        ...


@dataclass(frozen=True)
class BadSample:
    """A sample that cannot be used.

    Attributes:
        name: The sample's name.
        error: Why it cannot be used.
    """

    name: str
    error: DataError
