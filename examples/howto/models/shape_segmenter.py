"""A small segmentation model for the images of shape_detector.py: background, filled and hollow squares.

python examples/howto/models/shape_segmenter.py FOLDER

writes segmenter.onnx, and calibration and evaluation folders with images.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from graphs import build_model
from onnx import helper
from ridge import Array, add_ones, fit_ridge
from shape_detector import (
    CELLS,
    CLASSES,
    COMPONENTS,
    SECOND,
    SIDE,
    STRIDE,
    convolve,
    draw_image,
    fit_first_layer,
    unfold,
    write_images,
)  # fmt: skip

MASKS = 1 + len(CLASSES)


def draw_mask(objects: Array) -> Array:
    """Class of each cell, shape CELLS·CELLS: 0 is the background."""
    at = np.arange(CELLS) * STRIDE
    mask = np.zeros((CELLS, CELLS), np.int64)
    for label, cx, cy, width, height in objects:
        inside_y, inside_x = np.abs(at - cy) <= height / 2, np.abs(at - cx) <= width / 2
        mask[inside_y[:, None] & inside_x[None]] = 1 + int(label)
    return mask


def train(images: int = 120, seed: int = 3) -> onnx.ModelProto:
    """The model: two convolutions, then the scores are resized to the image."""
    rng = np.random.default_rng(seed)
    drawn = [draw_image(rng) for _ in range(images)]
    inputs = [pixels.transpose(2, 0, 1) / 255.0 for pixels, _ in drawn]
    first, bias = fit_first_layer(inputs[:30])
    rows, targets = [], []
    for x, (_, objects) in zip(inputs, drawn, strict=True):
        hidden = np.maximum(convolve(x, first, 2) + bias[:, None, None], 0)
        rows.append(unfold(hidden, SECOND, 2).reshape(CELLS**2, -1))
        targets.append(np.eye(MASKS)[draw_mask(objects).reshape(-1)])
    y = np.concatenate(targets)
    fitted = fit_ridge(add_ones(np.concatenate(rows)), y, np.where(y[:, 0] > 0, 1.0, 4.0))
    constants = {
        "w1": first, "b1": bias, "b2": fitted[-1],
        "w2": fitted[:-1].T.reshape(MASKS, 2 * COMPONENTS, SECOND, SECOND),
        "scales": np.array([1.0, 1.0, STRIDE, STRIDE]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], strides=[2, 2], pads=[2] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], strides=[2, 2], pads=[3] * 4),
        helper.make_node("Resize", ["c2", "", "scales"], ["masks"], mode="linear"),
    ]
    shape = ["n", MASKS, SIDE, SIDE]
    return build_model(nodes, {"image": ["n", 3, SIDE, SIDE]}, {"masks": shape}, constants)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    write_images(place / "calibration", 64, seed=1)
    write_images(place / "evaluation", 64, seed=2)
    onnx.save(train(), place / "segmenter.onnx")
