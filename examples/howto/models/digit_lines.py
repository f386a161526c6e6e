"""A small recognizer of lines of digits, trained with numpy alone, and images of lines for it.

python examples/howto/models/digit_lines.py FOLDER

writes recognizer.onnx, folders calibration and evaluation with images, evaluation.csv with their texts, and
alphabet.txt. The first layer
holds random features of whitened windows, the second one is fitted by ridge regression to the centres of the digits.
The output is that of a CTC recognizer: probabilities of 48 steps, blank first.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from graphs import build_model
from numpy.lib.stride_tricks import sliding_window_view
from onnx import helper
from PIL import Image, ImageDraw, ImageFont
from ridge import Array, add_ones, fit_ridge

HEIGHT, WIDTH, WINDOW, STRIDE = 24, 96, 15, 2
STEPS, FEATURES, COMPONENTS, DIGITS = WIDTH // STRIDE, 512, 100, "0123456789"
BLANK_WEIGHT, SHARPNESS = 0.35, 12.0


def draw_line(rng: np.random.Generator) -> tuple[Array, str, list[float]]:
    """Gray pixels of shape HEIGHT·WIDTH, the text, and the centre of each digit in pixels."""
    font = ImageFont.load_default(int(rng.integers(18, 21)))
    text = "".join(rng.choice(list(DIGITS), int(rng.integers(3, 7))))
    image = Image.new("L", (WIDTH, HEIGHT), int(rng.integers(190, 240)))
    pen, left, centres = ImageDraw.Draw(image), float(rng.integers(3, 10)), []
    top, ink = int(rng.integers(-1, 3)), int(rng.integers(10, 80))
    for digit in text:
        width = font.getlength(digit)
        pen.text((left, top), digit, ink, font)
        centres.append(left + width / 2)
        left += width + rng.uniform(1.0, 3.0)
    noisy = np.asarray(image, np.float64) + rng.normal(0, 6, (HEIGHT, WIDTH))
    return np.clip(noisy, 0, 255).astype(np.uint8), text, centres


def write_lines(folder: Path, count: int, seed: int) -> None:
    """Images, and beside the folder a table of their texts."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    rows = ["path,text"]
    for k in range(count):
        pixels, text, _ = draw_line(rng)
        Image.fromarray(pixels).save(folder / f"{k:03}.png")
        rows.append(f"{k:03}.png,{text}")
    folder.with_suffix(".csv").write_text("\n".join(rows) + "\n")


def _windows(pixels: Array) -> Array:
    """Windows of full height, one for each step, from pixels prepared as (x / 255 − 0.5) / 0.5."""
    side = WINDOW // 2
    padded = np.pad((pixels / 255 - 0.5) / 0.5, ((0, 0), (side, side)))
    windows = sliding_window_view(padded, WINDOW, axis=1)[:, ::STRIDE]
    return windows.transpose(1, 0, 2).reshape(STEPS, -1)


def train(lines: int = 1000, seed: int = 0) -> onnx.ModelProto:
    """The recognizer."""
    rng = np.random.default_rng(seed)
    rows, targets = [], []
    for pixels, text, centres in (draw_line(rng) for _ in range(lines)):
        label = np.zeros(STEPS, np.int64)
        for digit, centre in zip(text, centres, strict=True):
            label[np.abs(np.arange(STEPS) * STRIDE - centre) <= STRIDE] = 1 + int(digit)
        rows.append(_windows(pixels))
        targets.append(label)
    x, labels = np.concatenate(rows), np.concatenate(targets)
    mean = x.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov((x - mean).T))
    whitening = vectors[:, -COMPONENTS:] / np.sqrt(values[-COMPONENTS:])
    first = whitening @ rng.normal(size=(COMPONENTS, FEATURES)) / np.sqrt(COMPONENTS)
    bias = rng.uniform(-1, 1, FEATURES) - mean @ first
    hidden = add_ones(np.maximum(x @ first + bias, 0))
    weights = np.where(labels > 0, 1.0, BLANK_WEIGHT)
    second = fit_ridge(hidden, np.eye(1 + len(DIGITS))[labels], weights, 3.0)
    constants = {
        "w1": first.T.reshape(FEATURES, 1, HEIGHT, WINDOW), "b1": bias, "axis": np.array([2]),
        "w2": SHARPNESS * second[:-1].T[:, :, None, None], "b2": SHARPNESS * second[-1],
    }  # fmt: skip
    side = WINDOW // 2
    nodes = [
        helper.make_node(
            "Conv", ["x", "w1", "b1"], ["c1"], strides=[1, STRIDE], pads=[0, side, 0, side]
        ),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"]),
        helper.make_node("Squeeze", ["c2", "axis"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["steps"], perm=[0, 2, 1]),
        helper.make_node("Softmax", ["steps"], ["text"], axis=2),
    ]
    shape = ["n", STEPS, 1 + len(DIGITS)]
    return build_model(nodes, {"x": ["n", 1, HEIGHT, WIDTH]}, {"text": shape}, constants)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    write_lines(place / "calibration", 100, seed=1)
    write_lines(place / "evaluation", 150, seed=2)
    (place / "alphabet.txt").write_text("\n".join(DIGITS) + "\n")
    onnx.save(train(), place / "recognizer.onnx")
