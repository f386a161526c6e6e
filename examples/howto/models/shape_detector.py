"""A small detector of shapes on noise, trained with numpy alone, and images with labels for it.

python examples/howto/models/shape_detector.py FOLDER

writes detector.onnx, detector_nms.onnx with suppression in the graph, and calibration and evaluation folders with
images and YOLO's labels. Filled and hollow squares lie on noise. The first layer holds
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
from ridge import add_ones, fit_ridge

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


def fit_first_layer(inputs: list[Array]) -> tuple[Array, Array]:
    """Weights and bias: principal components of patches, each with both signs."""
    patches = np.concatenate([unfold(x[:1], FIRST, 2).reshape(-1, FIRST**2) for x in inputs])
    _, components = np.linalg.eigh(np.cov(patches.T))
    half = components[:, ::-1][:, :COMPONENTS].T.reshape(COMPONENTS, 1, FIRST, FIRST)
    first = np.repeat(np.concatenate([half, -half]), 3, axis=1) / 3
    first_bias = -convolve(np.full((3, SIDE, SIDE), 90 / 255), first, 2)[:, 20, 20]
    return first, first_bias


def train(images: int = 90, seed: int = 0) -> onnx.ModelProto:
    """The detector."""
    rng = np.random.default_rng(seed)
    drawn = [draw_image(rng) for _ in range(images)]
    inputs = [pixels.transpose(2, 0, 1) / 255.0 for pixels, _ in drawn]
    first, first_bias = fit_first_layer(inputs[:30])
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
    x = add_ones(x)
    fitted = np.concatenate(
        [
            fit_ridge(x[near], y[near, :4], np.ones(near.sum())),
            fit_ridge(x, y[:, 4:], np.where(near, 8.0, 1.0)),
        ],
        axis=1,
    )
    second = fitted[:-1].T.reshape(-1, 2 * COMPONENTS, SECOND, SECOND)
    return build(first, first_bias, second, fitted[-1])


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


def add_suppression(model: onnx.ModelProto) -> onnx.ModelProto:
    """The detector with suppression in its graph: rows of corners, score and class, shape 1·N·6."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph = model.graph
    constants: dict[str, Array] = {
        "parts": np.array([4, len(CLASSES)]), "half": np.array(0.5, np.float32), "most": np.array([50]),
        "overlap": np.array([0.45], np.float32), "least": np.array([0.25], np.float32),
        "picks": np.array([1, 1, 1]), "first_axis": np.array([0]), "two": np.array([2, 2]),
    }  # fmt: skip
    graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in constants.items())
    nodes = [
        helper.make_node("Split", ["output0", "parts"], ["wide", "every_score"], axis=1),
        helper.make_node("Transpose", ["wide"], ["every_box"], perm=[0, 2, 1]),
        helper.make_node(
            "NonMaxSuppression",
            ["every_box", "every_score", "most", "overlap", "least"],
            ["picked"],
            center_point_box=1,
        ),
        helper.make_node("Split", ["picked", "picks"], ["image", "kind", "box"], axis=1),
        helper.make_node("Concat", ["image", "box"], ["where_box"], axis=1),
        helper.make_node("GatherND", ["every_box", "where_box"], ["picked_boxes"]),
        helper.make_node("GatherND", ["every_score", "picked"], ["picked_scores"]),
        helper.make_node("Split", ["picked_boxes", "two"], ["centre", "size"], axis=1),
        helper.make_node("Mul", ["size", "half"], ["half_size"]),
        helper.make_node("Sub", ["centre", "half_size"], ["low"]),
        helper.make_node("Add", ["centre", "half_size"], ["high"]),
        helper.make_node("Unsqueeze", ["picked_scores", "picks_axis"], ["score"]),
        helper.make_node("Cast", ["kind"], ["class"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["low", "high", "score", "class"], ["rows"], axis=1),
        helper.make_node("Unsqueeze", ["rows", "first_axis"], ["detections"]),
    ]
    graph.initializer.append(numpy_helper.from_array(np.array([1]), "picks_axis"))
    for number, node in enumerate(nodes):
        node.name = f"suppression{number}"
    graph.node.extend(nodes)
    del graph.output[:]
    graph.output.append(
        helper.make_tensor_value_info("detections", TensorProto.FLOAT, [1, "boxes", 6])
    )
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    place = Path(sys.argv[1])
    write_images(place / "calibration", 64, seed=1)
    write_images(place / "evaluation", 64, seed=2)
    detector = train()
    onnx.save(detector, place / "detector.onnx")
    onnx.save(add_suppression(detector), place / "detector_nms.onnx")
