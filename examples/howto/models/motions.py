"""A small network with an LSTM that recognizes motions, made with numpy alone, and signals of an accelerometer.

python examples/howto/models/motions.py FOLDER

writes lstm.onnx, calibration.npz and evaluation.npz. Two convolutions stand before the LSTM. Their weights and the
recurrent ones are random (an echo state network); the last layer is fitted by ridge regression.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from graphs import build_model
from onnx import helper
from ridge import Array, add_ones, fit_ridge

POINTS, AXES, FIRST, SECOND, WIDTH, KINDS = 96, 3, 64, 128, 48, 4  # still, walking, running, stairs
RATE = 24.0  # Hz


def draw_signals(count: int, seed: int) -> tuple[Array, Array]:
    """Accelerations of shape count·AXES·POINTS in g, and the kind of motion of each."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, KINDS, count)
    pace = np.array([0.0, 1.8, 2.8, 1.5])[labels] * rng.uniform(0.85, 1.15, count)
    size = (np.array([0.02, 0.35, 0.8, 0.35])[labels] * rng.uniform(0.7, 1.3, count))[:, None]
    phase = 2 * np.pi * pace[:, None] * np.arange(POINTS) / RATE
    phase += rng.uniform(0, 2 * np.pi, (count, 1))
    climb = np.where(labels == 3, 0.25, 0.0)[:, None] * np.cos(phase / 2)
    up = 1 + size * np.cos(phase) + climb
    x = np.stack([size * np.sin(phase), 0.6 * size * np.sin(2 * phase + 1), up], axis=1)
    return (x + rng.normal(0, 0.15, x.shape)).astype(np.float32), labels


def train(seed: int = 0) -> onnx.ModelProto:
    """The network; features of the last layer are computed by the network itself."""
    rng = np.random.default_rng(seed)
    constants = {
        "w1": rng.normal(size=(FIRST, AXES, 5)) / 2, "b1": rng.uniform(-1, 1, FIRST),
        "w2": rng.normal(size=(SECOND, FIRST, 5)) / np.sqrt(2.5 * FIRST), "b2": rng.uniform(-1, 1, SECOND),
        "w": 2 * rng.normal(size=(1, 4 * WIDTH, SECOND)) / np.sqrt(SECOND),
        "r": 1.5 * rng.normal(size=(1, 4 * WIDTH, WIDTH)) / np.sqrt(WIDTH),
        "b": rng.uniform(-1, 1, (1, 8 * WIDTH)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[2, 2], strides=[4]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Transpose", ["r2"], ["steps"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["steps", "w", "r", "b"], ["states"], hidden_size=WIDTH),
        helper.make_node("ReduceMean", ["states"], ["mean"], axes=[0, 1], keepdims=0),
    ]
    inputs = {"x": ["n", AXES, POINTS]}
    body = build_model(nodes, inputs, {"mean": ["n", WIDTH]}, constants)
    x, labels = draw_signals(2000, seed + 10)
    session = onnxruntime.InferenceSession(
        body.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    hidden = add_ones(session.run(None, {"x": x})[0].astype(np.float64))
    fitted = fit_ridge(hidden, np.eye(KINDS)[labels], np.ones(len(x)), 0.1)
    last = helper.make_node("Gemm", ["mean", "w3", "b3"], ["motion"])
    constants |= {"w3": fitted[:-1], "b3": fitted[-1]}
    return build_model([*nodes, last], inputs, {"motion": ["n", KINDS]}, constants)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    onnx.save(train(), place / "lstm.onnx")
    for seed, name, count in ((1, "calibration", 128), (2, "evaluation", 500)):
        signals, kinds = draw_signals(count, seed)
        np.savez(place / f"{name}.npz", x=signals, labels=kinds)
