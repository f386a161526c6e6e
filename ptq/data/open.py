"""Opening of a data source: a path, ``module:callable``, arrays, or feeds from Python."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core import remote
from ptq.core.errors import DataError, UsageError
from ptq.core.option_checks import (
    refuse_unknown_options,
    require_count,
    require_path,
    require_shard,
)
from ptq.core.wording import plural
from ptq.data.cached_source import CachedSource
from ptq.data.formats.rows import TableSource
from ptq.data.import_callable import import_callable
from ptq.data.input_spec import InputSpec
from ptq.data.preparation import Preparation
from ptq.data.preprocessing.image_options import choose_image_options
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.preprocessing.recorded_preprocess import RecordedPreprocess
from ptq.data.read_once import ReadOnceSource
from ptq.data.sample import Samples, SampleSource
from ptq.data.sample_store import CacheLimits, CacheOption, parse_cache
from ptq.data.sources.calibration_reader import is_reader
from ptq.data.sources.indexed_items import IndexedItems
from ptq.data.sources.open_object import open_callable, open_object
from ptq.data.sources.open_place import PlaceOpener
from ptq.data.sources.stream import FeedStream
from ptq.data.trees.fetched_folder import FetchedFolder

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


@refuse_unknown_options
def open_samples(
    source: DataSource,
    inputs: Sequence[InputSpec],
    preprocess: Preparation | None = None,
    *,
    skip_bad: bool = False,
    limit: int | None = None,
    shard: tuple[int, int] | None = None,
    cache: CacheOption | None = None,
    recorded: RecordedPreprocess | None = None,
    required: bool = True,
    title: str = "data",
) -> Samples:
    """Samples of a data source. They are checked against the model's inputs when they are read.

    Args:
        source: A folder of images, of WAV files, of .txt files, or of .npz files with one feed each. A .txt file of
            one text on each line. An .npz with arrays by input name and optional ``labels``, or an .npy for a
            single input; the leading axis counts the samples. Tar shards as WebDataset writes them, or Parquet.
            Each of these may be a URL or a pattern. A ``module:callable``. In Python: arrays, a callable, a list of
            feeds, or Samples, which keep their own preprocessing and ``skip_bad``.
        inputs: The model's inputs.
        preprocess: Options for images, audio or text. The model's inputs determine options that are None.
        skip_bad: Leave bad samples out and list them, instead of raising at the first one.
        limit: Largest number of samples; evenly spread. Of a stream, whose length is unknown, the first ones.
        shard: (k, n): every n-th sample from the k-th on, after ``limit``.
        cache: Keep samples on disk after their first reading: in a folder, up to half of its free space, or up to a
            size such as ``20GB``. Without it, up to 256 MiB of a callable's or an iterable's samples are kept in
            memory. If they do not fit, each pass reads them anew, and they must be the same each time.
        recorded: Options that an earlier run recorded. They fill in those of ``preprocess`` that are None. Without
            ``preprocess`` they prepare images, arrays of uint8 pixels, and audio.
        required: Refuse arrays that ``preprocess`` does not apply to; otherwise they are fed as given.
        title: How messages name a source without a name of its own: the argument of the caller.

    Raises:
        DataError: There are no samples, or the model does not take them. Iteration raises it too.
        UsageError: An option does not apply to this source.
    """
    limits = None if cache is None else parse_cache(cache)
    limit = None if limit is None else require_count("limit", limit, least=1)
    part = None if shard is None else require_shard(shard)
    if not (isinstance(inputs, Sequence) and all(isinstance(one, InputSpec) for one in inputs)):
        raise UsageError(
            f"inputs {inputs!r} are no list of InputSpec; give ptq.data.InputSpec(name, dtype, shape) of each input",
            "inputs",
        )
    if isinstance(source, Samples):
        if required and preprocess not in (None, Preprocess()):
            raise UsageError("preprocessing options do not apply to samples that are open already")
        samples, stream = source, None
    else:
        found = _open_source(source, inputs, preprocess, recorded, required, title)
        stream = found if isinstance(found, FeedStream) and not found.is_listed else None
        positions = None if stream else found.positions()
        origin = None
        if isinstance(source, (str, os.PathLike)):
            origin = SampleOrigin(
                os.fspath(source), tuple(inputs), preprocess, recorded, required, cache,
                finds_samples=positions is not None and _can_find_samples(found, os.fspath(source)),
            )  # fmt: skip
        samples = Samples(_keep(found, source, limits), positions, skip_bad=skip_bad, origin=origin)
    if limit is not None:
        samples = samples.spread(limit)
        if stream is not None and len(samples) == limit:
            stream.note_first(limit)
    return samples if part is None else _open_shard(samples, *part)


def _open_shard(samples: Samples, index: int, count: int) -> Samples:
    shard, listed = samples.shard(index, count), len(samples.positions)
    if listed and not shard.positions:
        raise DataError(
            f"shard {index}/{count} holds none of the {plural(listed, 'sample')}; "
            f"make at most {plural(listed, 'shard')}"
        )
    return shard


@dataclass(frozen=True)
class SampleOrigin:
    """How a place is opened; another process does it in the same way.

    Attributes:
        finds_samples: Whether a sample is found without reading those before it.
    """

    source: str
    inputs: tuple[InputSpec, ...]
    preprocess: Preparation | None
    recorded: RecordedPreprocess | None
    required: bool
    cache: CacheOption | None
    finds_samples: bool

    @property
    def is_local(self) -> bool:
        """Whether the samples are in files of this machine, not in a store or made by a callable."""
        return os.path.exists(self.source)

    def __call__(self) -> Samples:
        """All samples of the place."""
        return open_samples(
            self.source,
            self.inputs,
            self.preprocess,
            cache=self.cache,
            recorded=self.recorded,
            required=self.required,
        )


def _can_find_samples(found: SampleSource, place: str) -> bool:
    """Whether a sample is found without others: not from a callable, in a compressed .npz, or in one of a store."""
    if _is_reference(place):
        return False
    if isinstance(found, TableSource):
        return found.finds_rows and not (place.endswith(".npz") and remote.as_url(place))
    return not place.endswith(".npz")


def _keep(found: SampleSource, source: DataSource, limits: CacheLimits | None) -> SampleSource:
    """The source, with its samples kept where each pass would otherwise compute them again."""
    if isinstance(source, (np.ndarray, Mapping, list, tuple)):
        return found  # in memory already
    if isinstance(found, FeedStream) and found.is_listed:
        return found
    if isinstance(found, FeedStream):
        repeatable = not (isinstance(source, Iterator) or is_reader(source))
        return ReadOnceSource(found, limits, repeatable=repeatable)
    keeps = limits is not None or isinstance(found, (IndexedItems, FetchedFolder))
    return CachedSource(found, limits) if keeps else found


def _open_source(
    source: DataSource,
    inputs: Sequence[InputSpec],
    preprocess: Preparation | None,
    recorded: RecordedPreprocess | None,
    required: bool,
    title: str,
) -> SampleSource:
    if isinstance(source, (str, os.PathLike)):
        if isinstance(source, os.PathLike):
            require_path(title, source)
        if not os.fspath(source):
            raise UsageError(
                "the path of the samples is empty; give a file, a folder or module:callable"
            )
        if isinstance(source, str) and _is_reference(source):
            images = choose_image_options(preprocess, recorded, source, required=required)
            return open_callable(import_callable(source), inputs, source, images)
        opener = PlaceOpener(inputs, preprocess, recorded, required=required)
        return opener.open(os.fspath(source))
    images = choose_image_options(preprocess, recorded, "objects from Python", required=required)
    return open_object(source, inputs, images, title)


def _is_reference(place: str) -> bool:
    """Whether a text names a callable, not a file."""
    form = re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", place)
    return form is not None and not os.path.exists(place)
