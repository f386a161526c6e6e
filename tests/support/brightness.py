"""A classifier of images by their brightness, which only the right preprocessing gets right.

It says ``light`` where the mean of the normalized pixels is positive. Its threshold is MEAN: at another mean it gets
the images between the two wrong.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from networks import build_network
from numpy.random import default_rng
from PIL import Image

MEAN, STD = 0.2, 0.25
OPTIONS = ("--mean", MEAN, "--std", STD)
COUNT, SIDE = 24, 8


def brightness_model() -> onnx.ModelProto:
    """Conv, GlobalAveragePool, Flatten, Gemm: 3 channels → the scores of dark and light."""
    return build_network(
        "c = Conv(x, w)\ng = GlobalAveragePool(c)\nf = Flatten(g)\ny = Gemm(f, m)",
        {"x": ("n", 3, SIDE, SIDE)},
        w=np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1) * np.float32(0.9),
        m=np.array([[-1, 1]] * 3, np.float32),
    )


def write_brightness_images(folder: Path) -> Path:
    """Images of all shades in the folders of their classes, ``0_dark`` and ``1_light``."""
    rng = default_rng(5)
    for number, shade in enumerate(np.linspace(8, 240, COUNT)):
        pixels = np.clip(shade + rng.normal(0, 3, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
        label = "1_light" if pixels.mean() / 255 > MEAN else "0_dark"
        (folder / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / label / f"{number:02}.png")
    return folder
