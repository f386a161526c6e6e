"""A network with two layers, and its samples as files and as rows, for tests of workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from networks import build_network, gaussian_array
from parts import CONV, WB

SAMPLES = 60


def write_two_layers(folder: Path) -> Path:
    """Write ``model.onnx``, ``rows.npz`` and the folder ``files`` of the same samples; return the folder."""
    channels, inputs = WB["w"].shape[:2]
    text = CONV + "r = Relu(c)\ns = Flatten(r)\ny = MatMul(s, f)"
    weights = {**WB, "f": gaussian_array(channels * 64, 5) / 8}
    model = build_network(text, {"x": ("n", inputs, 8, 8)}, **weights)
    onnx.save(model, folder / "model.onnx")
    rows = gaussian_array(SAMPLES, inputs, 8, 8)
    np.savez(folder / "rows.npz", x=rows)
    (folder / "files").mkdir()
    for number, row in enumerate(rows):
        np.savez(folder / "files" / f"{number:03}.npz", x=row[None])
    return folder
