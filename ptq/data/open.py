"""Opening of a data source: a path, ``module:callable``, arrays, or feeds from Python."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UsageError
from ptq.data.arrays import MemoryTable, NpyTable, NpzTable
from ptq.data.cached_source import CachedSource
from ptq.data.folder import list_folder
from ptq.data.images import ImageFolder
from ptq.data.input_spec import InputSpec
from ptq.data.preprocess import Preprocess
from ptq.data.read_once import ReadOnceSource
from ptq.data.rows import NpzFolder, TableSource
from ptq.data.sample import Samples, SampleSource
from ptq.data.sample_store import CacheOption, parse_cache
from ptq.data.stream import FeedStream, import_callable

DataSource = (
    str
    | os.PathLike[str]
    | Samples
    | NDArray[Any]
    | Mapping[str, NDArray[Any]]
    | Callable[[], Iterable[Any]]
    | Iterable[Any]
)
"""A path, ``module:callable``, arrays whose leading axis counts the samples, or feeds."""


def open_samples(
    source: DataSource,
    inputs: Sequence[InputSpec],
    preprocess: Preprocess | None = None,
    *,
    skip_bad: bool = False,
    limit: int | None = None,
    shard: tuple[int, int] | None = None,
    cache: CacheOption | None = None,
) -> Samples:
    """Samples of a data source. They are checked against the model's inputs when they are read.

    Args:
        source: A folder of images, or of .npz files with one feed each. An .npz with arrays by input name and
            optional ``labels``, or an .npy for a single input; the leading axis counts the samples. A
            ``module:callable``. In Python: arrays, a callable, a list of feeds, or Samples, which keep their own
            preprocessing and ``skip_bad``.
        inputs: The model's inputs.
        preprocess: Options for images. The model's input determines options that are None.
        skip_bad: Leave bad samples out and list them, instead of raising at the first one.
        limit: Largest number of samples; they are evenly spread. Of a callable, the first ones.
        shard: (k, n): every n-th sample from the k-th on, after ``limit``.
        cache: Keep samples on disk after their first reading: in a folder, up to half of its free space, or up to a
            size such as ``20GB``. Without it, up to 256 MiB of a callable's or an iterable's samples are kept in
            memory. If they do not fit, each pass reads them anew, and they must be the same each time.

    Raises:
        DataError: There are no samples, or the model does not take them. Iteration raises it too.
        UsageError: An option does not apply to this source.
    """
    if isinstance(source, Samples):
        samples, images = source, False
    else:
        found = _open_source(source, inputs, preprocess or Preprocess())
        images = isinstance(found, ImageFolder)
        positions = None if isinstance(found, FeedStream) else found.positions()
        samples = Samples(_keep(found, source, cache), positions, skip_bad=skip_bad)
    if not images and preprocess not in (None, Preprocess()):
        raise UsageError(
            "preprocessing options apply only to a folder of images; arrays are fed unchanged"
        )
    if limit is not None:
        samples = samples.spread(limit)
    return samples if shard is None else samples.shard(*shard)


def _keep(found: SampleSource, source: DataSource, cache: CacheOption | None) -> SampleSource:
    """The source, with its samples kept where each pass would otherwise compute them again."""
    if isinstance(source, (np.ndarray, Mapping, list, tuple)):
        return found  # in memory already
    limits = None if cache is None else parse_cache(cache)
    if isinstance(found, FeedStream):
        return ReadOnceSource(found, limits, repeatable=not isinstance(source, Iterator))
    return found if limits is None else CachedSource(found, limits)


def _open_source(
    source: DataSource, inputs: Sequence[InputSpec], preprocess: Preprocess
) -> SampleSource:
    if isinstance(source, (str, os.PathLike)):
        if not os.fspath(source):
            raise UsageError(
                "the path of the samples is empty; give a file, a folder or module:callable"
            )
        path = Path(source)
        reference = isinstance(source, str) and re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", source)
        if reference and not path.exists():
            return FeedStream(import_callable(str(source)), inputs, str(source))
        return _open_path(path, inputs, preprocess)
    if isinstance(source, Mapping):
        return TableSource(
            MemoryTable({k: np.asarray(v) for k, v in source.items()}), inputs, "data"
        )
    if isinstance(source, np.ndarray):
        return TableSource(
            MemoryTable({_only_input_name(inputs, "an array"): source}), inputs, "data"
        )
    if callable(source):
        return FeedStream(source, inputs, getattr(source, "__name__", type(source).__name__))
    if not isinstance(source, Iterable):
        raise UsageError(f"data of type {type(source).__name__}; give a path, arrays or a callable")
    return FeedStream(lambda: source, inputs, "data")


def _open_path(path: Path, inputs: Sequence[InputSpec], preprocess: Preprocess) -> SampleSource:
    suffix = path.suffix.lower()
    try:
        if path.is_dir():
            listing = list_folder(path)
            if listing.archives:
                return NpzFolder(listing, inputs)
            return ImageFolder(listing, inputs, preprocess)
        path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot open the data: {reason}") from error
    if not path.is_file():
        raise DataError(f"{path}: not a file or folder; give samples")
    if suffix == ".npz":
        return TableSource(NpzTable(path), inputs, path.name)
    if suffix == ".npy":
        return TableSource(NpyTable(path, _only_input_name(inputs, path.name)), inputs, path.name)
    raise DataError(
        f"{path}: unknown kind of data; give a folder of images or of .npz, an .npz, an .npy, "
        "or module:callable"
    )


def _only_input_name(inputs: Sequence[InputSpec], what: str) -> str:
    if len(inputs) != 1:
        names = ", ".join(repr(spec.name) for spec in inputs) or "none"
        raise DataError(f"{what} feeds one input, but the model's inputs are {names}; give an .npz")
    return inputs[0].name
