"""A small sentence encoder, made with numpy alone from the documents of ptq, with its tokenizer and sentences.

python examples/howto/models/sentences.py FOLDER

writes encoder.onnx, tokenizer.json, calibration.txt and evaluation.txt. Words are vectors of a singular value
decomposition of their company (latent semantic analysis). One head of attention adds the company in the sentence. Two
layers, the second fitted by ridge regression, give vectors of sentences of length 1.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import onnx
from graphs import build_model
from onnx import helper
from ridge import Array, add_ones, fit_ridge
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = (
    "tutorial_photos tutorial_arrays choosing troubleshooting faq data tasks targets report cluster"
)
WIDTH, HIDDEN, LENGTH, WORDS = 64, 256, 24, 1200
PAD, UNKNOWN = 0, 1


def read_sentences() -> list[str]:
    """Sentences of 5 to LENGTH words of the prose of the documents, in order."""
    found = []
    for name in PAGES.split():
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        text = re.sub(r"```.*?```|^[|#!].*?$", "", text, flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
        for sentence in re.split(r"(?<=[.?!])\s+|\n\s*\n|\n- ", text):
            words = re.findall(r"[a-z0-9]+", sentence.lower())
            if 5 <= len(words) <= LENGTH:
                found.append(" ".join(words))
    return sorted(set(found), key=found.index)


def write_tokenizer(path: Path, sentences: list[str]) -> list[list[int]]:
    """The tokenizer of whole words, most frequent first; the numbers of all sentences."""
    words = " ".join(sentences).split()
    names = sorted(set(words), key=lambda word: (-words.count(word), word))[:WORDS]
    numbers = {name: k for k, name in enumerate(["[PAD]", "[UNK]", *names])}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    return [tokenizer.encode(sentence).ids for sentence in sentences]


def _word_vectors(rows: list[list[int]], size: int) -> Array:
    """Vectors of words from how often two stand in one sentence (positive pointwise mutual information)."""
    counts = np.zeros((len(rows), size))
    for k, row in enumerate(rows):
        counts[k, row] = 1
    company = counts.T @ counts + 1e-3
    alone = company.sum(axis=1)
    information = np.log(company * alone.sum() / np.outer(alone, alone))
    left, values, _ = np.linalg.svd(np.maximum(information, 0))
    vectors = left[:, :WIDTH] * np.sqrt(values[:WIDTH])
    vectors[PAD] = 0
    return vectors / vectors.std()


def train(rows: list[list[int]], seed: int = 0) -> onnx.ModelProto:
    """The encoder."""
    rng = np.random.default_rng(seed)
    size = max(map(max, rows)) + 1
    vectors = _word_vectors(rows, size)
    first = rng.normal(size=(WIDTH, HIDDEN)) / np.sqrt(WIDTH)
    mixed = []
    for row in rows:
        x = vectors[row]
        scores = x @ x.T / np.sqrt(WIDTH)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        mixed.append(x + weights / weights.sum(axis=1, keepdims=True) @ x)
    hidden = np.stack([np.tanh(x @ first).mean(axis=0) for x in mixed])
    seen = np.bincount(np.concatenate([list(set(row)) for row in rows]), minlength=size)
    rare = -np.log(np.maximum(seen, 1) / len(rows))
    goal = np.stack([rare[row] @ vectors[row] for row in rows])
    fitted = fit_ridge(add_ones(hidden), goal, np.ones(len(rows)), 0.1)
    constants = {
        "table": vectors, "w1": first, "w2": fitted[:-1], "b2": fitted[-1], "shrink": np.array(WIDTH**-0.5),
        "far": np.array(1e4), "one": np.array(1.0), "words": np.array([2]), "key": np.array([1]),
        "tiny": np.array(1e-6), "sum_axis": np.array([1]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=1),
        helper.make_node("Transpose", ["x"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "keys"], ["dots"]),
        helper.make_node("Mul", ["dots", "shrink"], ["scaled"]),
        helper.make_node("Sub", ["mask", "one"], ["absent"]),
        helper.make_node("Mul", ["absent", "far"], ["penalty"]),
        helper.make_node("Unsqueeze", ["penalty", "key"], ["wide_penalty"]),
        helper.make_node("Add", ["scaled", "wide_penalty"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["attention"], axis=-1),
        helper.make_node("MatMul", ["attention", "x"], ["company"]),
        helper.make_node("Add", ["x", "company"], ["mixed"]),
        helper.make_node("MatMul", ["mixed", "w1"], ["m1"]),
        helper.make_node("Tanh", ["m1"], ["t1"]),
        helper.make_node("MatMul", ["t1", "w2"], ["m2"]),
        helper.make_node("Add", ["m2", "b2"], ["each"]),
        helper.make_node("Unsqueeze", ["mask", "words"], ["wide_mask"]),
        helper.make_node("Mul", ["each", "wide_mask"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "sum_axis"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["wide_mask", "sum_axis"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("ReduceL2", ["mean"], ["length"], axes=[1], keepdims=1),
        helper.make_node("Add", ["length", "tiny"], ["divisor"]),
        helper.make_node("Div", ["mean", "divisor"], ["sentence_embedding"]),
    ]
    ids = ["n", "words"]
    return build_model(
        nodes,
        {"input_ids": ids, "attention_mask": ids},
        {"sentence_embedding": ["n", WIDTH]},
        constants,
        frozenset({"input_ids", "attention_mask"}),
    )


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    sentences = read_sentences()
    onnx.save(train(write_tokenizer(place / "tokenizer.json", sentences)), place / "encoder.onnx")
    (place / "calibration.txt").write_text("\n".join(sentences[::2][:128]) + "\n")
    (place / "evaluation.txt").write_text("\n".join(sentences[1::2][:128]) + "\n")
