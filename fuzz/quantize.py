"""Fuzz target: every verb of ptq returns a result or raises a PtqError of one line.

A float model goes through inspect and quantize. Its result, or a model that is already quantized, goes through lint,
convert, portability, verify and evaluate.

See README.md in this folder.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import atheris

with atheris.instrument_imports(include=["ptq", "onnx_ir"]):
    import ptq
    from ptq.data.splits import list_input_specs
    from ptq.model.graph import Graph
    from ptq.model.open import Model, open_model
    from ptq.rewrite.prepare.prepare import open_and_prepare

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from mutate import mutate

MAX_VALUES = 1 << 16  # values of a made-up input
OPEN_DIMENSION = 2  # length of a dimension that the model leaves open
TARGETS = ("ort", "litert", "tpu-mlir", "gemmlowp", "tensorrt")
METHODS = ("minmax", "mse", "percentile", "kl")

FOLDER = Path(tempfile.mkdtemp(prefix="ptq-fuzz-"))


Feeds = list[dict[str, np.ndarray]]
Result = TypeVar("Result")


def make_feeds(graph: Graph, chance: np.random.Generator) -> Feeds:
    """Make two samples of the model's inputs; none if they would be very large."""
    made = []
    for _ in range(2):
        feed = {}
        for spec in list_input_specs(graph):
            shape = [OPEN_DIMENSION if d is None else d for d in spec.shape]
            if np.prod(shape, dtype=object) > MAX_VALUES or spec.dtype.kind not in "fiub":
                return []
            feed[spec.name] = (2 * chance.standard_normal(shape)).astype(spec.dtype)
        made.append(feed)
    return made


def call_verb(verb: Callable[[], Result]) -> Result | None:
    """Call a verb; return its result, or None if it refuses in one line."""
    try:
        return verb()
    except ptq.PtqError as error:
        assert str(error) and "\n" not in str(error), error
        return None


def test_one_input(data: bytes) -> None:
    """Read a model from bytes in a file, and run every verb that applies."""
    path = FOLDER / "model.onnx"
    path.write_bytes(data)
    chance = np.random.default_rng(len(data))
    target, other = (TARGETS[i] for i in chance.integers(len(TARGETS), size=2))
    call_verb(lambda: ptq.inspect(path, target=target))
    samples = call_verb(lambda: make_feeds(open_and_prepare(path)[1].graph, chance))
    result = call_verb(
        lambda: ptq.quantize(
            path,
            samples,
            target=other,
            method=METHODS[chance.integers(len(METHODS))],
            form="qoperator" if chance.random() < 0.3 else "qdq",
            threads=1,
        )
    )
    if result is None:
        exercise_quantized(path, call_verb(lambda: make_feeds(open_model(path), chance)))
    else:
        result.graph.to_bytes()
        exercise_quantized(result.graph, samples)


def exercise_quantized(model: Model, samples: Feeds | None) -> None:
    """Lint a model and convert it both ways; with samples, verify and evaluate all three models."""
    call_verb(lambda: ptq.lint(model))
    converted = [
        call_verb(lambda form=form: ptq.convert(model, form)) for form in ("qdq", "qoperator")
    ]
    call_verb(lambda: ptq.convert(model, "qoperator", integers=True))
    for each in (model, *(graph for graph in converted if graph is not None)):
        if not samples:
            break
        call_verb(lambda each=each: ptq.verify(each, samples, threads=1))
        call_verb(lambda each=each: ptq.evaluate(each, samples, engine="integer", threads=1))
    if samples:
        call_verb(lambda: ptq.portability(model, samples))


def mutate_input(data: bytes, most: int, seed: int) -> bytes:
    """Mutate an input: usually its message, sometimes its bytes."""
    chance = random.Random(seed)
    if chance.random() < 0.1:
        return atheris.Mutate(data, most)
    try:
        model = onnx.ModelProto.FromString(data)
        mutate(model, chance)
        changed = model.SerializeToString()
    except (DecodeError, ValueError, TypeError, IndexError):
        return atheris.Mutate(data, most)
    return changed if len(changed) <= most else atheris.Mutate(data, most)


def main() -> None:
    """Run the fuzzer with libFuzzer's options."""
    atheris.Setup(sys.argv, test_one_input, custom_mutator=mutate_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
