"""Feeds from Python as samples: a callable that returns them, or what can be iterated again."""

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
    """What a callable yields: feeds (arrays by input name), or pairs of feed and label.

    A single input's feed may be the array alone. Its length is not known until it is counted,
    which runs the callable once; it may have no end if only the first samples are asked for.
    """

    def __init__(self, feeds: Feeds, inputs: Sequence[InputSpec], title: str) -> None:
        """``feeds`` is called anew for each pass."""
        super().__init__(title)
        self._feeds = feeds
        self._inputs = inputs

    def positions(self, at_most: int | None = None) -> range:
        """All positions, or the first ``at_most``, counted by running the callable once."""
        return range(sum(1 for _ in itertools.islice(self._items(), at_most)))

    def highest_label(self, positions: Sequence[int] | None) -> int:
        """None is known before the samples are read."""
        return -1

    def read(self, positions: Iterable[int]) -> Iterator[Sample | BadSample]:
        """Run the callable and check what it yields."""
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
        # The callable is the user's own code: whatever it raises is said in one line, and chained.
        except (Exception, SystemExit) as error:
            reason = " ".join(str(error).split())
            raise DataError(f"{self._title}: raised {type(error).__name__}: {reason}") from error
        if empty:
            raise DataError(f"{self._title}: gives no samples")

    def _to_sample(self, item: Any, name: str) -> Sample:
        labels: Any = None
        if isinstance(item, tuple) and len(item) == 2:
            item, labels = item
        if not isinstance(item, Mapping):
            if len(self._inputs) != 1 or not hasattr(item, "__array__"):
                raise DataError(
                    f"{name}: is of type {type(item).__name__}; give a dict of arrays by input "
                    "name, or a pair of it and a label"
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
    """The callable that ``module:name`` refers to; the module may be in the working folder.

    Raises:
        UsageError: No such module or name, or something that cannot be called.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise UsageError(f"{reference or '(nothing)'}: is not module:callable; name both")
    # At the end of the path, so that a file in the working folder hides no installed module.
    try:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    # Importing runs the user's module: whatever it raises is said in one line, and chained.
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{reference}: cannot import it: {type(error).__name__}: {reason}"
        ) from error
    if not callable(found):
        raise UsageError(f"{reference}: is of type {type(found).__name__}; name a callable")
    feeds: Feeds = found
    return feeds
