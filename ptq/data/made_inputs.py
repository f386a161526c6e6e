"""Inputs made from the shapes of a model, for runs whose results do not matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data.input_spec import InputSpec

SIDE, LENGTH = 224, 128
"""Sizes that stand for dynamic ones: the side of an image, and any other length."""
_SEED = 0


AxisNames = Mapping[str, Sequence[str | None]]
"""By input, the names of its dynamic dimensions; None for a dimension without one."""
_UNNAMED: AxisNames = {}


def make_feed(inputs: Sequence[InputSpec], names: AxisNames = _UNNAMED) -> dict[str, NDArray[Any]]:
    """One feed: normal numbers for float inputs, ones for integers and booleans.

    Ones are valid as tokens and in a mask. A dynamic first dimension is 1. Dimensions of one name have one length.

    Args:
        inputs: The model's inputs.
        names: The names of their dynamic dimensions.
    """
    generator, lengths = np.random.default_rng(_SEED), dict.fromkeys(_list_batch_names(names), 1)
    feed: dict[str, NDArray[Any]] = {}
    for spec in inputs:
        open_size = SIDE if len(spec.shape) == 4 else LENGTH
        shape = []
        for axis, size in enumerate(spec.shape):
            name = names[spec.name][axis] if spec.name in names else None
            length = size if size is not None else open_size if axis else 1
            shape.append(lengths.setdefault(name, length) if name and axis else length)
        if spec.dtype.kind == "f":
            feed[spec.name] = generator.standard_normal(shape).astype(spec.dtype)
        else:
            feed[spec.name] = np.ones(shape, spec.dtype)
    return feed


def _list_batch_names(names: AxisNames) -> list[str]:
    """Names of first dimensions; one that an input has for two dimensions, such as ``?``, stands for no length."""
    return [of[0] for of in names.values() if of and of[0] and of[0] not in of[1:]]
