"""How are the statistics of a whole calibration kept in one file?

The file is an uncompressed .npz that ``numpy.load`` reads: ``format``, ``graph``, ``samples``, ``names``
(sorted), and the arrays of `TensorStats.to_arrays` for each name as ``NUMBER/ARRAY``. Equal statistics give
equal bytes: the entries are sorted, carry the zip format's earliest time, and no compressor is involved,
whose output would depend on its version.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.errors import StatsError
from ptq.observers.stats import TensorStats

FORMAT = 1


@dataclass(frozen=True)
class Calibration:
    """The statistics of every observed tensor of one graph.

    Attributes:
        graph: Digest of the graph that was run.
        samples: How many samples were counted.
        tensors: Statistics by tensor name.
    """

    graph: str
    samples: int
    tensors: Mapping[str, TensorStats]

    def merge(self, other: Calibration) -> Calibration:
        """The statistics of both sets of samples.

        Raises:
            StatsError: They belong to different graphs or tensors.
        """
        if self.graph != other.graph or self.tensors.keys() != other.tensors.keys():
            raise StatsError(
                "the two calibrations belong to different graphs; calibrate both with the same model"
            )
        tensors = {name: stats.merge(other.tensors[name]) for name, stats in self.tensors.items()}
        return Calibration(self.graph, self.samples + other.samples, tensors)

    def to_bytes(self) -> bytes:
        """The file's content."""
        names = sorted(self.tensors)
        arrays: dict[str, NDArray[Any]] = {
            "format": np.array(FORMAT, np.int64),
            "graph": np.frombuffer(self.graph.encode(), np.uint8),
            "names": np.frombuffer("\0".join(names).encode(), np.uint8),
            "samples": np.array(self.samples, np.int64),
        }
        for number, name in enumerate(names):
            for key, array in self.tensors[name].to_arrays().items():
                arrays[f"{number}/{key}"] = array
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
            for key in sorted(arrays):
                entry = zipfile.ZipInfo(f"{key}.npy", (1980, 1, 1, 0, 0, 0))
                entry.create_system = 3  # the default differs between systems
                content = io.BytesIO()
                little = arrays[key].astype(arrays[key].dtype.newbyteorder("<"))
                np.lib.format.write_array(content, little, version=(1, 0), allow_pickle=False)
                archive.writestr(entry, content.getvalue())
        return buffer.getvalue()

    def save(self, path: Path) -> None:
        """Write the file; it appears under its name complete or not at all."""
        partial = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            partial.write_bytes(self.to_bytes())
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise StatsError(
                f"{path}: cannot be written ({error.strerror}); choose another place"
            ) from None


def load(path: Path, graph: str | None = None) -> Calibration:
    """Read a calibration file.

    Args:
        path: The file.
        graph: The digest that the statistics must carry, None for any.

    Raises:
        StatsError: The file is missing, damaged, of another kind, or belongs to another graph.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StatsError(
            f"{path}: cannot be read ({error.strerror}); make it with `ptq calibrate`"
        ) from None
    calibration = from_bytes(content, str(path))
    if graph is not None and calibration.graph != graph:
        raise StatsError(
            f"{path}: these statistics belong to another graph; calibrate this model again"
        )
    return calibration


def from_bytes(content: bytes, source: str) -> Calibration:
    """The inverse of `Calibration.to_bytes`; ``source`` names the file in an error.

    Raises:
        StatsError: The content is damaged or of another kind.
    """
    try:
        arrays = _arrays(content)
        if int(arrays["format"]) != FORMAT:
            raise StatsError(f"is of format {arrays['format']}, this version reads {FORMAT}")
        text = arrays["names"].tobytes().decode()
        names = text.split("\0") if text else []
        parts: list[dict[str, NDArray[Any]]] = [{} for _ in names]
        for key, array in arrays.items():
            number, slash, part = key.partition("/")
            if slash:
                parts[int(number)][part] = array
        tensors = {
            name: TensorStats.from_arrays(part) for name, part in zip(names, parts, strict=True)
        }
        return Calibration(arrays["graph"].tobytes().decode(), int(arrays["samples"]), tensors)
    except StatsError as error:
        raise StatsError(f"{source}: {error}") from None
    except (zipfile.BadZipFile, ValueError, KeyError, IndexError, TypeError, EOFError) as error:
        raise StatsError(
            f"{source}: not a file of calibration statistics, or damaged"
            f" ({type(error).__name__}); make it with `ptq calibrate`"
        ) from None


def _arrays(content: bytes) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for entry in archive.infolist():
            if entry.compress_type != zipfile.ZIP_STORED:
                raise ValueError("compressed")  # and so never larger than the file itself
            stream = io.BytesIO(archive.read(entry))
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError("version")
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            array = np.frombuffer(stream.read(), dtype).reshape(shape)
            arrays[entry.filename.removesuffix(".npy")] = array
    return arrays
