"""A decoder that writes the name of a garment letter by letter, made with numpy alone, and the encoder before it.

python examples/howto/models/captions.py FOLDER

writes encoder.onnx, which is the network of sample_data, decoder.onnx and images/. The decoder takes the scores of
the encoder, the letter before and a state, and gives scores of the next letter and the next state. Its recurrent
weights are random; its last layer is fitted by ridge regression to the names of the classes.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
from graphs import build_model
from onnx import helper
from ridge import add_ones, fit_ridge

SAMPLE = Path(__file__).resolve().parents[3] / "sample_data"
LETTERS = ".abcdefghijklmnopqrstuvwxyz-"  # the first one starts and ends a name
CLASSES, STATE = 10, 192


def train(seed: int = 0) -> onnx.ModelProto:
    """The decoder of one step."""
    names = [path.name[2:] for path in sorted((SAMPLE / "images" / "calibration").iterdir())]
    rng = np.random.default_rng(seed)
    scores = 2.5 * rng.normal(size=(600, CLASSES))
    scores[np.arange(600), np.arange(600) % CLASSES] += 9  # as sure as the encoder usually is
    table = rng.normal(size=(len(LETTERS), 32))
    w = np.concatenate([rng.normal(size=(32, STATE)) / 6, rng.normal(size=(CLASSES, STATE)) / 6])
    r = rng.normal(size=(STATE, STATE)) * 0.9 / np.sqrt(STATE)
    rows, targets = [], []
    for k, context in enumerate(scores):
        state, before = np.zeros(STATE), 0
        context = np.exp(context - context.max())
        context /= context.sum()
        for letter in f"{names[k % CLASSES]}.":
            state = np.tanh(np.concatenate([table[before], 4 * context]) @ w + state @ r)
            before = LETTERS.index(letter)
            rows.append(state)
            targets.append(before)
    x, y = add_ones(np.stack(rows)), np.eye(len(LETTERS))[targets]
    fitted = fit_ridge(x, y, np.ones(len(x)), 0.05)
    constants = {
        "table": table,
        "w": w,
        "r": r,
        "w2": fitted[:-1],
        "b2": fitted[-1],
        "four": np.array(4.0),
    }
    nodes = [
        helper.make_node("Gather", ["table", "letter"], ["vector"]),
        helper.make_node("Softmax", ["scores"], ["certainty"], axis=1),
        helper.make_node("Mul", ["certainty", "four"], ["context"]),
        helper.make_node("Concat", ["vector", "context"], ["joined"], axis=1),
        helper.make_node("MatMul", ["joined", "w"], ["m1"]),
        helper.make_node("MatMul", ["state", "r"], ["m2"]),
        helper.make_node("Add", ["m1", "m2"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["next_state"]),
        helper.make_node("Gemm", ["next_state", "w2", "b2"], ["letters"]),
    ]
    return build_model(
        nodes,
        {"scores": ["n", CLASSES], "letter": ["n"], "state": ["n", STATE]},
        {"letters": ["n", len(LETTERS)], "next_state": ["n", STATE]},
        constants,
        frozenset({"letter"}),
    )


if __name__ == "__main__":
    place = Path(sys.argv[1])
    shutil.copytree(SAMPLE / "images", place / "images")
    shutil.copy(SAMPLE / "fashion_mobilenet.onnx", place / "encoder.onnx")
    onnx.save(train(), place / "decoder.onnx")
