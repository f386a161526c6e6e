"""Statistics of a whole calibration, and the file that stores them.

The file is an uncompressed .npz that ``numpy.load`` reads. It holds ``format``, ``graph``, ``samples``, ``names``
(sorted), ``preprocess`` (JSON), ``contents`` (`ptq.observers.sample_prefixes`), ``identity`` (JSON) and ``members``
(`ptq.observers.sample_identity`), which are absent if unknown. For each name it holds the arrays of
`TensorStats.to_arrays` as ``NUMBER/ARRAY``. In the same way ``summed`` and ``sums/NUMBER/ARRAY`` hold the sums by
channel, and ``kept/ARRAY`` the `ptq.observers.kept_samples`. Equal statistics give equal bytes: the entries are
sorted and carry the earliest time of the zip format. No compressor is used, because its output would depend on its
version.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core import files
from ptq.core.errors import StatsError
from ptq.core.option_checks import require_path
from ptq.core.preprocess_record import describe_differences
from ptq.core.record import Record, decode_record, encode_record
from ptq.core.remote import redact
from ptq.observers.channel_sums import ChannelSums
from ptq.observers.kept_samples import KeptSamples
from ptq.observers.npz_bytes import decode_arrays, encode_arrays
from ptq.observers.sample_identity import SampleIdentity
from ptq.observers.sample_prefixes import (
    Prefixes,
    decode_prefixes,
    encode_prefixes,
    merge_prefixes,
)
from ptq.observers.stats import TensorStats

FORMAT = 1
CHECKPOINT_MAGIC, SHARD_CHECKPOINT_MAGIC = b"ptq checkpoint 1 ", b"ptq shard checkpoint 1 "
"""What precedes the statistics in the checkpoints of one process and of workers."""


@dataclass(frozen=True)
class Calibration:
    """The statistics of every observed tensor of one graph.

    Attributes:
        graph: Digest of the graph that was run.
        samples: Number of counted samples.
        tensors: Statistics by tensor name.
        channels: Sums by channel, by tensor name.
        skipped: Name and reason of each bad sample that was left out; not stored in the file.
        preprocess: How the samples became arrays (see `ptq.core.preprocess_record`); None in older files, where it is
            unknown.
        contents: Short digests of the counted samples; None in older files, where they are unknown.
        identity: Names and contents of the counted samples, and versions and processor; None in older files.
        kept: Some of the samples themselves; None for none.
    """

    graph: str
    samples: int
    tensors: Mapping[str, TensorStats]
    channels: Mapping[str, ChannelSums] = field(default_factory=dict)
    skipped: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    preprocess: Record | None = None
    contents: Prefixes | None = None
    identity: SampleIdentity | None = None
    kept: KeptSamples | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        counts = f"samples={self.samples}, tensors={len(self.tensors)}, skipped={len(self.skipped)}"
        return f"Calibration(graph={self.graph[:12]!r}, {counts})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read a calibration file.

        Raises:
            StatsError: The file is missing or damaged, or is not a statistics file.
        """
        require_path("path", path)
        return load(Path(path))

    def merge(self, other: Calibration, *, allow_mixed_processors: bool = False) -> Calibration:
        """The statistics of both sets of samples.

        Args:
            other: The statistics of other samples.
            allow_mixed_processors: Merge statistics of different kinds of processor too. Their last bits may differ.

        Raises:
            StatsError: They belong to different graphs or tensors, or to samples of different preprocessing. Or a
                sample is in both, or they were made on different kinds of processor.
        """
        same_tensors = self.tensors.keys() == other.tensors.keys()
        if (
            self.graph != other.graph
            or not same_tensors
            or self.channels.keys() != other.channels.keys()
        ):
            raise StatsError(
                "the two calibrations belong to different graphs; calibrate both with the same model"
            )
        preprocess = merge_preprocess(self.preprocess, other.preprocess)
        identity = self._merge_identity(other, allow_mixed_processors)
        tensors = {name: stats.merge(other.tensors[name]) for name, stats in self.tensors.items()}
        channels = {name: sums.merge(other.channels[name]) for name, sums in self.channels.items()}
        samples, skipped = self.samples + other.samples, self.skipped + other.skipped
        contents = merge_prefixes(self.contents, other.contents)
        return Calibration(
            self.graph, samples, tensors, channels, skipped, preprocess, contents, identity,
            self._merge_kept(other),
        )  # fmt: skip

    def _merge_kept(self, other: Calibration) -> KeptSamples | None:
        """The kept samples of both; None if both keep none."""
        if self.kept is None:
            return None if other.kept is None else other.kept.pass_over(self.samples)
        return (
            self.kept.pass_over(other.samples)
            if other.kept is None
            else self.kept.merge(other.kept)
        )

    def _merge_identity(self, other: Calibration, allow_mixed: bool) -> SampleIdentity | None:
        """The identity of both; None if one is unknown."""
        if self.identity is None or other.identity is None:
            return None
        self.identity.require_other_samples(other.identity, self.contents, other.contents)
        if not allow_mixed:
            self.identity.require_same_processor(other.identity)
        return self.identity.merge(other.identity)

    def to_bytes(self) -> bytes:
        """Content of the file."""
        names, summed = sorted(self.tensors), sorted(self.channels)
        arrays: dict[str, NDArray[Any]] = {
            "format": np.array(FORMAT, np.int64),
            "graph": np.frombuffer(self.graph.encode(), np.uint8),
            "names": np.frombuffer("\0".join(names).encode(), np.uint8),
            "summed": np.frombuffer("\0".join(summed).encode(), np.uint8),
            "samples": np.array(self.samples, np.int64),
        }
        if self.preprocess is not None:
            text = encode_record(self.preprocess).encode()
            arrays["preprocess"] = np.frombuffer(text, np.uint8)
        if self.contents is not None:
            arrays["contents"] = encode_prefixes(self.contents)
        if self.identity is not None:
            arrays["identity"] = np.frombuffer(self.identity.to_text().encode(), np.uint8)
            arrays["members"] = encode_prefixes(self.identity.members)
        if self.kept is not None:
            arrays.update({f"kept/{key}": a for key, a in self.kept.to_arrays().items()})
        for number, name in enumerate(names):
            for key, array in self.tensors[name].to_arrays().items():
                arrays[f"{number}/{key}"] = array
        for number, name in enumerate(summed):
            for key, array in self.channels[name].to_arrays().items():
                arrays[f"sums/{number}/{key}"] = array
        return encode_arrays(arrays)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file atomically: it appears complete or not at all.

        Raises:
            PtqError: The file cannot be written.
        """
        require_path("path", path)
        files.write(Path(path), self.to_bytes())


def merge_preprocess(first: Record | None, second: Record | None) -> Record | None:
    """The preprocessing of two sets of samples together; None if one is unknown.

    Raises:
        StatsError: They were not prepared alike.
    """
    if first is None or second is None:
        return None
    difference = describe_differences(second, first)
    if difference:
        raise StatsError(
            f"the samples of the two calibrations were not prepared alike: {difference}; "
            "calibrate both with the same preprocessing"
        )
    return min(first, second, key=encode_record)  # the same record in every order


def load(path: Path, graph: str | None = None) -> Calibration:
    """Read a calibration file.

    Args:
        path: The file.
        graph: Digest of the graph that the statistics must belong to; None for any graph.

    Raises:
        StatsError: The file is missing or damaged, is not a statistics file, or belongs to another graph.
    """
    try:
        content = files.read(path)
    except OSError as error:
        raise StatsError(
            f"{redact(path)}: cannot be read ({error.strerror}); create it by calibrating"
        ) from None
    calibration = from_bytes(content, redact(path))
    if graph is not None and calibration.graph != graph:
        raise StatsError(
            f"{redact(path)}: these statistics belong to another graph; calibrate this model again"
        )
    return calibration


def from_bytes(content: bytes, source: str) -> Calibration:
    """The inverse of `Calibration.to_bytes`; ``source`` names the file in an error.

    Raises:
        StatsError: The content is damaged, or is not a statistics file.
    """
    if content.startswith((CHECKPOINT_MAGIC, SHARD_CHECKPOINT_MAGIC)):
        raise StatsError(
            f"{source}: is the checkpoint of a calibration that has not ended; run it to its end and give its result"
        )
    try:
        arrays = decode_arrays(content)
        if "format" not in arrays:
            raise StatsError(
                "holds arrays, but no calibration statistics; create it by calibrating"
            )
        if int(arrays["format"]) != FORMAT:
            raise StatsError(f"format {int(arrays['format'])} is not {FORMAT}; calibrate again")
        tensors = {
            name: TensorStats.from_arrays(stored)
            for name, stored in _list_named_arrays(arrays, "names", "")
        }
        channels = {
            name: ChannelSums.from_arrays(stored)
            for name, stored in _list_named_arrays(arrays, "summed", "sums/")
        }
        graph = arrays["graph"].tobytes().decode()
        stored = arrays.get("preprocess")
        preprocess = None if stored is None else decode_record(stored.tobytes().decode())
        samples = int(arrays["samples"])
        if samples < 0:
            raise StatsError(f"counts {samples} samples; calibrate again")
        contents = decode_prefixes(arrays["contents"]) if "contents" in arrays else None
        return Calibration(
            graph, samples, tensors, channels,
            preprocess=preprocess, contents=contents, identity=_read_identity(arrays), kept=_read_kept(arrays),
        )  # fmt: skip
    except StatsError as error:
        raise StatsError(f"{source}: {error}") from None
    except (
        zipfile.BadZipFile,
        RuntimeError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        EOFError,
    ) as error:
        raise StatsError(
            f"{source}: not a file of calibration statistics, or damaged; create it by calibrating"
        ) from error


def _read_identity(arrays: Mapping[str, NDArray[Any]]) -> SampleIdentity | None:
    if "identity" not in arrays:
        return None
    members = decode_prefixes(arrays["members"])
    return SampleIdentity.from_text(arrays["identity"].tobytes().decode(), members)


def _read_kept(arrays: Mapping[str, NDArray[Any]]) -> KeptSamples | None:
    kept = {k.removeprefix("kept/"): a for k, a in arrays.items() if k.startswith("kept/")}
    return KeptSamples.from_arrays(kept) if kept else None


def _list_named_arrays(
    arrays: Mapping[str, NDArray[Any]], names: str, prefix: str
) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Each stored name with the arrays that are stored under its number."""
    text = arrays[names].tobytes().decode()
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for key, array in arrays.items():
        number, slash, array_name = key.removeprefix(prefix).partition("/")
        if slash and key.startswith(prefix):
            found.setdefault(number, {})[array_name] = array
    for position, name in enumerate(text.split("\0") if text else []):
        yield name, found[str(position)]
