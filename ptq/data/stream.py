"""Feeds from Python as samples: from a callable that returns them, or an iterable that can be repeated."""

from __future__ import annotations

import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptq.core.errors import DataError, PtqError, UsageError
from ptq.data.input_spec import InputSpec, cast_to_input, match_keys
from ptq.data.sample import BadSample, IndexedSource, Sample, parse_labels

Feeds = Callable[[], Iterable[Any]]


class FeedStream(IndexedSource):
    """Feeds (arrays by input name), or pairs of feed and label, from a callable.

    For a model with a single input, the feed may be the array alone. Counting the samples runs the callable once. The
    stream may be endless if only the first samples are used.
    """

    def __init__(self, feeds: Feeds, inputs: Sequence[InputSpec], title: str) -> None:
        """``feeds`` is called again for each pass."""
        super().__init__(title)
        self._feeds = feeds
        self._inputs = inputs

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``, counted by one run of the callable."""
        return range(sum(1 for _ in itertools.islice(self._items(), at_most)))

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """-1: labels are unknown before the samples are read."""
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Run the callable and check its samples."""
        items = self._items()
        done = 0
        for position in positions:
            item = next(itertools.islice(items, position - done, None), self)
            done = position + 1
            if item is self:
                return
            name = self.name(position)
            try:
                yield self._to_sample(item, name)
            except DataError as error:
                yield BadSample(name, error)

    def _items(self) -> Iterator[Any]:
        empty = True
        try:
            for item in self._feeds():
                empty = False
                yield item
        except PtqError:
            raise
        # The callable is the user's code: any exception becomes a one-line message and is chained.
        except (Exception, SystemExit) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{self._title}: raised {type(error).__name__}: {reason}") from error
        if empty:
            raise DataError(f"{self._title}: returns no samples")

    def _to_sample(self, item: Any, name: str) -> Sample:
        labels: Any = None
        if isinstance(item, tuple) and len(item) == 2:
            item, labels = item
        if not isinstance(item, Mapping):
            if len(self._inputs) != 1 or not hasattr(item, "__array__"):
                raise DataError(
                    f"{name}: has type {type(item).__name__}; give a dict of arrays by input "
                    "name, or a pair of such a dict and a label"
                )
            item = {self._inputs[0].name: item}
        keys, label_key = match_keys([str(key) for key in item], self._inputs, name)
        if label_key is not None and labels is None:
            labels = item[label_key]
        feed = {
            s.name: cast_to_input(s, np.asarray(item[keys[s.name]]), name) for s in self._inputs
        }
        return Sample(name, feed, parse_labels(labels, name))


def import_callable(reference: str) -> Feeds:
    """The callable to which ``module:name`` refers; the module may be in the working folder.

    Raises:
        UsageError: The module or name does not exist, or the object is not callable.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise UsageError(f"{reference or '(nothing)'}: is not of the form module:callable")
    # At the end of the path, so that no file in the working folder hides an installed module.
    try:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    # The import runs the user's module: any exception becomes a one-line message and is chained.
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{reference}: cannot import it: {type(error).__name__}: {reason}"
        ) from error
    if not callable(found):
        raise UsageError(f"{reference}: has type {type(found).__name__}; give a callable")
    feeds: Feeds = found
    return feeds
