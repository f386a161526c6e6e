"""One item of a DataLoader, a dataset or a list, as inputs of the model and a label.

An item may be:

- a dict by input name, with the label under ``labels`` or ``label``;
- a tuple or list of one value for each input, in the model's order, and a label behind them if any;
- a pair of a dict and a label;
- for a model with one input, the value alone.

A value is an array, a tensor or a nested list. For a single input that takes images it may also be a path, a Pillow
image, or uint8 pixels if preprocessing options are given or recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import DataError, UsageError
from ptq.data.formats.image_reader import ImageReader, is_image
from ptq.data.input_spec import InputSpec, match_keys
from ptq.data.preprocessing.image_options import ImageOptions, may_be_image
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.sources.array_like import to_array
from ptq.data.sources.batch import Row, split_batch, split_label, take_single
from ptq.data.sources.columns import LABELS

_EXAMPLES = "give an array, a dict of arrays by input name, or a pair of either and a label"


class ItemParser:
    """Reads items for the inputs of one model.

    Attributes:
        preprocess: The complete preprocessing if items are images, or may be; None for arrays.
    """

    def __init__(self, inputs: Sequence[InputSpec], images: ImageOptions | None) -> None:
        """Raise UsageError if preprocessing options are required, and the model does not take images."""
        self._inputs = inputs
        self._pixels_are_images = images is not None
        self._required = images is not None and images.required
        self._options = Preprocess() if images is None else images.preprocess
        self._reader: ImageReader | None = None
        if self._required and len(inputs) == 1:
            self._reader = ImageReader(inputs[0], self._options)

    @property
    def preprocess(self) -> Preprocess | None:
        """The complete preprocessing if an item was an image or options are required; None for arrays."""
        return None if self._reader is None else self._reader.preprocess

    def parse_rows(self, item: Any, where: str) -> list[Row]:
        """The samples of an item: one, or one for each row of a batch.

        Raises:
            DataError: The item is of no known form, or does not fit the model's inputs.
        """
        values, label = self._match_inputs(item, where)
        label = _to_label(label, where)
        if len(self._inputs) == 1:
            images = self._list_images(next(iter(values.values())))
            if images is not None:
                return self._read_images(images, label, where)
        feed = {}
        for name, value in values.items():
            array = to_array(value, where)
            if array is None:
                shown = type(value).__name__
                raise DataError(f"{where}: input {name!r} has type {shown}; {_EXAMPLES}")
            if self._required:
                raise DataError(
                    f"{where}: has type {array.dtype}; preprocessing applies to paths, Pillow images and "
                    "uint8 pixels; prepared arrays are fed without preprocessing"
                )
            feed[name] = array
        return split_batch(feed, label, self._inputs, where)

    def _match_inputs(self, item: Any, where: str) -> tuple[dict[str, Any], Any]:
        """Value of each input, and the label; None without one."""
        names, label = [spec.name for spec in self._inputs], None
        if isinstance(item, (tuple, list)) and not (len(names) == 1 and _is_array_list(item)):
            if len(item) == 2 and isinstance(item[0], Mapping):
                item, label = item
            elif len(item) in (len(names), len(names) + 1):
                return dict(zip(names, item, strict=False)), [*item, None][len(names)]
            elif len(names) != 1 or not _is_image_list(item):
                raise DataError(
                    f"{where}: is a {type(item).__name__} of {len(item)} values; the model has "
                    f"{len(names)} inputs ({', '.join(map(repr, names))}): give one value for each, "
                    "and a label behind them if any"
                )
        if not isinstance(item, Mapping):
            if len(names) != 1:
                raise DataError(
                    f"{where}: has type {type(item).__name__}; the model has {len(names)} inputs "
                    f"({', '.join(map(repr, names))}): give a dict of arrays by input name, or a pair of such "
                    "a dict and a label"
                )
            return {names[0]: item}, label
        values = {str(key): value for key, value in item.items()}
        for key in LABELS:
            if key in values and key not in names:
                found = values.pop(key)
                label = found if label is None else label
        if len(names) == len(values) == 1 and self._list_images(*values.values()) is not None:
            return {names[0]: next(iter(values.values()))}, label
        keys, _ = match_keys(list(values), self._inputs, where)
        return {name: values[keys[name]] for name in names}, label

    def _list_images(self, value: Any) -> list[Any] | None:
        """The images that a value holds; None if it is no image."""
        if is_image(value):
            return [value]
        if isinstance(value, (list, tuple)) and _is_image_list(value):
            return list(value)
        if not self._pixels_are_images:
            return None
        array = to_array(value, "data")
        if array is None or array.dtype != np.uint8:
            return None
        found = list(array) if array.ndim == 4 else [array]
        fits = bool(found) and may_be_image(array.dtype, found[0].shape)
        return found if self._required or fits else None

    def _read_images(self, images: list[Any], label: Any, where: str) -> list[Row]:
        spec = self._inputs[0]
        if self._reader is None:
            try:
                self._reader = ImageReader(spec, self._options)
            except UsageError as error:  # nobody gave options: the item is wrong
                raise DataError(f"{where}: is an image; {error}") from error
        feeds = [self._reader.read(image, where) for image in images]
        labels = split_label(label, len(feeds), where) if len(feeds) > 1 else [take_single(label)]
        return [({spec.name: array}, own) for array, own in zip(feeds, labels, strict=True)]


def _is_array_list(item: Sequence[Any]) -> bool:
    """Whether a list holds plain numbers, or rows of them: it is then an array itself."""
    if not isinstance(item, list) or not item:
        return False
    if all(isinstance(value, (bool, int, float)) for value in item):
        return True
    return all(isinstance(value, list) and _is_array_list(value) for value in item)


def _is_image_list(item: Sequence[Any]) -> bool:
    return bool(item) and all(is_image(value) for value in item)


def _to_label(label: Any, where: str) -> Any:
    """The label, as an array if it is a tensor or a list of tensors."""
    if label is None or isinstance(label, (int, list)):
        return label
    array: NDArray[Any] | None = to_array(label, f"{where}: label")
    return label if array is None else array
