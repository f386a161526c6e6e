"""A small detector of shapes on noise, trained with numpy alone, and images with labels for it.

python tests/support/shape_detector.py FOLDER

writes detector.onnx, images and YOLO's labels. Filled and hollow squares lie on noise. The first layer holds
principal components of image patches; the second one is fitted by ridge regression. Outputs and metadata are those of
an export of Ultralytics.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SIDE, CELLS, STRIDE = 96, 24, 4
CLASSES = ("filled", "hollow")
COMPONENTS, FIRST, SECOND = 6, 5, 7
Array = np.ndarray[Any, Any]


def draw_image(rng: np.random.Generator) -> tuple[Array, Array]:
    """Pixels of shape H·W·3, and rows of class, centre and size in pixels."""
    pixels = rng.normal(90, 22, (SIDE, SIDE))
    rows: list[list[float]] = []
    for _ in range(int(rng.integers(1, 5))):
        side = int(rng.integers(9, 16))
        left, top = (int(v) for v in rng.integers(4, SIDE - side - 4, 2))
        centre = [left + side / 2, top + side / 2]
        if any(max(abs(centre[0] - r[1]), abs(centre[1] - r[2])) < 20 for r in rows):
            continue
        label, level = int(rng.integers(2)), rng.uniform(45, 100)
        pixels[top : top + side, left : left + side] += level
        if label:
            pixels[top + 3 : top + side - 3, left + 3 : left + side - 3] -= level
        rows.append([label, *centre, side, side])
    gray = np.clip(pixels, 0, 255).astype(np.uint8)
    return np.repeat(gray[:, :, None], 3, axis=2), np.array(rows)


def write_images(folder: Path, count: int, seed: int) -> None:
    """Images, and beside them YOLO's texts in a folder ``labels``."""
    rng = np.random.default_rng(seed)
    for name in ("images", "labels"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for k in range(count):
        pixels, rows = draw_image(rng)
        Image.fromarray(pixels).save(folder / "images" / f"{k:03}.png")
        lines = [f"{int(r[0])} " + " ".join(f"{v / SIDE:.6f}" for v in r[1:]) for r in rows]
        (folder / "labels" / f"{k:03}.txt").write_text("\n".join(lines))


def convolve(x: Array, weight: Array, stride: int) -> Array:
    """A padded convolution of one image; x has the shape C·H·W."""
    size = weight.shape[-1]
    patches = unfold(x, size, stride)
    return np.einsum("hwk,ok->ohw", patches, weight.reshape(len(weight), -1))


def unfold(x: Array, size: int, stride: int) -> Array:
    """Patches around every second or so pixel, shape rows·columns·(C·size·size)."""
    padded = np.pad(x, ((0, 0), (size // 2,) * 2, (size // 2,) * 2))
    windows = sliding_window_view(padded, (size, size), axis=(1, 2))[:, ::stride, ::stride]
    return windows.transpose(1, 2, 0, 3, 4).reshape(*windows.shape[1:3], -1)


def train(images: int = 90, seed: int = 0) -> onnx.ModelProto:
    """The detector."""
    rng = np.random.default_rng(seed)
    drawn = [draw_image(rng) for _ in range(images)]
    inputs = [pixels.transpose(2, 0, 1) / 255.0 for pixels, _ in drawn]
    patches = np.concatenate([unfold(x[:1], FIRST, 2).reshape(-1, FIRST**2) for x in inputs[:30]])
    _, components = np.linalg.eigh(np.cov(patches.T))
    half = components[:, ::-1][:, :COMPONENTS].T.reshape(COMPONENTS, 1, FIRST, FIRST)
    first = np.repeat(np.concatenate([half, -half]), 3, axis=1) / 3
    first_bias = -convolve(np.full((3, SIDE, SIDE), 90 / 255), first, 2)[:, 20, 20]
    grid = (np.arange(CELLS) * STRIDE).astype(float)
    rows, targets, positive = [], [], []
    for x, (_, objects) in zip(inputs, drawn, strict=True):
        hidden = np.maximum(convolve(x, first, 2) + first_bias[:, None, None], 0)
        features = unfold(hidden, SECOND, 2).reshape(CELLS**2, -1)
        target = np.zeros((CELLS, CELLS, 4 + len(CLASSES)))
        for label, cx, cy, width, height in objects:
            near_x, near_y = np.abs(grid - cx) <= 3, np.abs(grid - cy) <= 3
            for i, j in np.argwhere(near_y[:, None] & near_x[None]):
                target[i, j, :4] = cx - grid[j], cy - grid[i], width, height
                target[i, j, 4 + int(label)] = 1
        rows.append(features)
        targets.append(target.reshape(CELLS**2, -1))
        positive.append(target[..., 4:].max(axis=-1).reshape(-1) > 0)
    x, y, near = np.concatenate(rows), np.concatenate(targets), np.concatenate(positive)
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    fitted = np.concatenate(
        [
            fit(x[near], y[near, :4], np.ones(near.sum())),
            fit(x, y[:, 4:], np.where(near, 8.0, 1.0)),
        ],
        axis=1,
    )
    second = fitted[:-1].T.reshape(-1, 2 * COMPONENTS, SECOND, SECOND)
    return build(first, first_bias, second, fitted[-1])


def fit(x: Array, y: Array, weights: Array) -> Array:
    """Ridge regression."""
    weighted = x * weights[:, None]
    return np.linalg.solve(weighted.T @ x + 0.3 * np.eye(x.shape[1]), weighted.T @ y)


def build(first: Array, first_bias: Array, second: Array, second_bias: Array) -> onnx.ModelProto:
    """The graph: two convolutions, boxes in pixels and probabilities in one Concat."""
    at = np.arange(CELLS) * STRIDE
    grid = np.zeros((1, 4, CELLS, CELLS))
    grid[0, 0], grid[0, 1] = at[None, :], at[:, None]
    constants = {
        "w1": first, "b1": first_bias, "w2": second, "b2": second_bias, "grid": grid,
        "sharp": np.array(8.0), "shift": np.array(-4.0),
    }  # fmt: skip
    tensors = [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in constants.items()]
    for name, values in (("split", [4, len(CLASSES)]), ("flat", [1, -1, CELLS**2])):
        tensors.append(numpy_helper.from_array(np.array(values, np.int64), name))
    nodes = [
        helper.make_node("Conv", ["images", "w1", "b1"], ["c1"], strides=[2, 2], pads=[2] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], strides=[2, 2], pads=[3] * 4),
        helper.make_node("Split", ["c2", "split"], ["offsets", "raw"], axis=1),
        helper.make_node("Add", ["offsets", "grid"], ["boxes"]),
        helper.make_node("Mul", ["raw", "sharp"], ["sharpened"]),
        helper.make_node("Add", ["sharpened", "shift"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["joined"], axis=1),
        helper.make_node("Reshape", ["joined", "flat"], ["output0"]),
    ]
    for number, node in enumerate(nodes):
        node.name = f"node{number}"
    shape = [1, 3, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "shapes",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 6, CELLS**2])],
        tensors,
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    names = str(dict(enumerate(CLASSES)))
    for key, value in {
        "stride": str(STRIDE), "task": "detect", "imgsz": f"[{SIDE}, {SIDE}]", "names": names,
    }.items():  # fmt: skip
        model.metadata_props.add(key=key, value=value)
    return model


if __name__ == "__main__":
    place = Path(sys.argv[1])
    write_images(place, 120, seed=1)
    onnx.save(train(), place / "detector.onnx")
