"""Images as LiteRT's operators read and write them: channels last, four axes, padded by an operator of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ptq.rewrite.tflite.emitter import Emitter
from ptq.rewrite.tflite.orders import order_channels_last, permute_shape


def read_image(e: Emitter, name: str) -> int:
    """The tensor of an image, channels last; an image of one spatial axis gets height 1."""
    rank = e.rank(name)
    tensor = e.read(name, order_channels_last(rank))
    if rank != 3:
        return tensor
    result = add_temporary_image(e, name, "image")
    length = permute_shape(e.signature(name), order_channels_last(rank))
    e.reshape(tensor, _with_height(length), result, f"{name}_image")
    return result


def add_temporary_image(e: Emitter, name: str, what: str) -> int:
    """A new tensor with the shape and type of an image, channels last, of four axes."""
    order = order_channels_last(e.rank(name))
    shape, signature = (
        (s if len(s) == 4 else _with_height(s))
        for s in (permute_shape(e.shape(name), order), permute_shape(e.signature(name), order))
    )
    return e.temporary(f"{name}_{what}", shape, e.dtype(name), e.params(name), signature=signature)


def _with_height(shape: Sequence[int]) -> tuple[int, ...]:
    return (shape[0], 1, *shape[1:])


@contextmanager
def write_image(e: Emitter, name: str) -> Iterator[int]:
    """The tensor that an image operator writes; afterwards a RESHAPE removes a height that was added."""
    rank = e.rank(name)
    order = order_channels_last(rank)
    if rank != 3:
        yield e.write(name, order)
        return
    image = add_temporary_image(e, name, "image")
    yield image
    e.reshape(image, permute_shape(e.signature(name), order), e.write(name, order), name)


def pad_image(
    e: Emitter,
    name: str,
    tensor: int,
    pads: Sequence[tuple[int, int]],
    value: float | None = None,
) -> int:
    """The image padded with real 0, or with a value of the tensor's own type; itself where nothing is padded.

    Args:
        e: The emitter.
        name: The value that the tensor holds.
        tensor: The image, channels last, of four axes.
        pads: Elements before and after each spatial axis; empty for none.
        value: The number to pad with, as stored; None for real 0.
    """
    if not pads:
        return tensor
    spatial = [*pads] if len(pads) == 2 else [(0, 0), *pads]
    paddings = [(0, 0), *spatial, (0, 0)]
    order = order_channels_last(e.rank(name))
    shape, signature = (
        (s if len(s) == 4 else _with_height(s))
        for s in (permute_shape(e.shape(name), order), permute_shape(e.signature(name), order))
    )
    grown = tuple(n + sum(p) for n, p in zip(shape, paddings, strict=True))
    padded = e.temporary(
        f"{name}_padded", grown, e.dtype(name), e.params(name), signature=(signature[0], *grown[1:])
    )
    amounts = e.integers(np.asarray(paddings), f"{name}_paddings")
    if value is None:
        e.op("PAD", [tensor, amounts], [padded], "PadOptions")
        return padded
    filling = np.asarray([value], e.dtype(name))
    constant = e.literal(filling, f"{name}_filling", e.params(name))
    e.op("PADV2", [tensor, amounts, constant], [padded], "PadV2Options")
    return padded
