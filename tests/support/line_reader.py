"""A small text recognizer that matches letter patterns, and noisy lines with their texts for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

LETTERS = "abcdefghi"
HEIGHT, WIDTH, STEPS = 8, 6, 12
Array = np.ndarray[Any, Any]


def _patterns() -> Array:
    """A pattern of −1 and 1 for each letter, shape (letters, HEIGHT, WIDTH)."""
    return np.random.default_rng(5).choice([-1.0, 1.0], (len(LETTERS), HEIGHT, WIDTH))


def draw_line(rng: np.random.Generator, noise: float) -> tuple[Array, str]:
    """Pixels of 0 to 255 with one letter in every second cell, and the text."""
    text = "".join(rng.choice(list(LETTERS), int(rng.integers(2, 6))))
    pixels = np.zeros((HEIGHT, WIDTH * STEPS))
    for place, letter in enumerate(text):
        left = WIDTH * (2 * place + 1)
        pixels[:, left : left + WIDTH] = _patterns()[LETTERS.index(letter)]
    noisy = 128 + 40 * (pixels + rng.normal(0, noise, pixels.shape))
    return noisy.clip(0, 255).round().astype(np.uint8), text


def write_lines(folder: Path, count: int, seed: int, noise: float = 1.1) -> list[str]:
    """Images in ``images``, and their texts in ``texts.csv`` and in order in ``texts.txt``."""
    rng, texts = np.random.default_rng(seed), []
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for k in range(count):
        pixels, text = draw_line(rng, noise)
        Image.fromarray(pixels).save(folder / "images" / f"line_{k:03}.png")
        texts.append(text)
    rows = [f"images/line_{k:03}.png,{text}\n" for k, text in enumerate(texts)]
    (folder / "texts.csv").write_text("path,text\n" + "".join(rows))
    (folder / "texts.txt").write_text("\n".join(texts))
    return texts


def make_reader(*, listed: bool = True) -> onnx.ModelProto:
    """The recognizer; class 0 is the blank. ``listed`` writes the letters into the metadata."""
    weight = np.zeros((1 + len(LETTERS), 1, HEIGHT, WIDTH), np.float32)
    weight[1:, 0] = _patterns() / (HEIGHT * WIDTH)
    bias = np.r_[0.45, np.zeros(len(LETTERS))].astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["match"], "match", strides=[HEIGHT, WIDTH]),
        helper.make_node("Squeeze", ["match", "axis"], ["flat"], "flat"),
        helper.make_node("Transpose", ["flat"], ["y"], "order", perm=[0, 2, 1]),
    ]
    graph = helper.make_graph(
        nodes,
        "reader",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, HEIGHT, WIDTH * STEPS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", STEPS, 1 + len(LETTERS)])],
        [
            numpy_helper.from_array(weight, "w"),
            numpy_helper.from_array(bias, "b"),
            numpy_helper.from_array(np.array([2]), "axis"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if listed:
        helper.set_model_props(model, {"character": "\n".join(LETTERS)})
    return model
