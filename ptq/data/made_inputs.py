"""Inputs made from the shapes of a model, for runs whose results do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.data.input_spec import InputSpec

SIDE, LENGTH = 224, 128
"""Sizes that stand for dynamic ones: the side of an image, and any other length."""
_SEED = 0


def make_feed(inputs: Sequence[InputSpec]) -> dict[str, NDArray[Any]]:
    """One feed: normal numbers for float inputs, ones for integers and booleans.

    Ones are valid as tokens and in a mask. A dynamic first dimension is 1.

    Args:
        inputs: The model's inputs.
    """
    generator = np.random.default_rng(_SEED)
    feed: dict[str, NDArray[Any]] = {}
    for spec in inputs:
        open_size = SIDE if len(spec.shape) == 4 else LENGTH
        shape = [
            size if size is not None else open_size if axis else 1
            for axis, size in enumerate(spec.shape)
        ]
        if spec.dtype.kind == "f":
            feed[spec.name] = generator.standard_normal(shape).astype(spec.dtype)
        else:
            feed[spec.name] = np.ones(shape, spec.dtype)
    return feed
