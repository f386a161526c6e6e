"""Does any model make load, inspect or quantize end in anything but a result or a PtqError of one line?

See README.md in this folder.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["ptq", "onnx_ir"]):
    import ptq
    from ptq.feeding import input_specs
    from ptq.models import open_model
    from ptq.rewrite.prepare import prepare

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from mutate import mutated

MOST = 1 << 16  # values of a made-up input
FREE = 2  # length of a dimension that the model leaves open
TARGETS = ("ort", "litert", "tpu-mlir", "gemmlowp", "tensorrt")
METHODS = ("minmax", "mse", "percentile", "kl")

FOLDER = Path(tempfile.mkdtemp(prefix="ptq-fuzz-"))


def feeds(model: Path, chance: np.random.Generator) -> list[dict[str, np.ndarray]]:
    """Two samples of the model's inputs; none where they would be very large."""
    made = []
    for _ in range(2):
        feed = {}
        for spec in input_specs(prepare(open_model(model)).graph):
            shape = [FREE if d is None else d for d in spec.shape]
            if np.prod(shape, dtype=object) > MOST or spec.dtype.kind not in "fiub":
                return []
            feed[spec.name] = (2 * chance.standard_normal(shape)).astype(spec.dtype)
        made.append(feed)
    return made


def test_one_input(data: bytes) -> None:
    """Read, inspect and quantize a model in a file."""
    path = FOLDER / "model.onnx"
    path.write_bytes(data)
    chance = np.random.default_rng(len(data))
    try:
        ptq.inspect(path, target=TARGETS[chance.integers(len(TARGETS))])
        ptq.quantize(
            path,
            feeds(path, chance),
            target=TARGETS[chance.integers(len(TARGETS))],
            method=METHODS[chance.integers(len(METHODS))],
            form="qoperator" if chance.random() < 0.3 else "qdq",
            threads=1,
        ).graph.to_bytes()
    except ptq.PtqError as error:
        assert str(error) and "\n" not in str(error), error


def mutator(data: bytes, most: int, seed: int) -> bytes:
    """A neighbour of an input: mostly of its message, sometimes of its bytes."""
    chance = random.Random(seed)
    if chance.random() < 0.1:
        return atheris.Mutate(data, most)
    try:
        model = onnx.ModelProto.FromString(data)
        mutated(model, chance)
        changed = model.SerializeToString()
    except (DecodeError, ValueError, TypeError, IndexError):
        return atheris.Mutate(data, most)
    return changed if len(changed) <= most else atheris.Mutate(data, most)


def main() -> None:
    """Fuzz, with libFuzzer's options."""
    atheris.Setup(sys.argv, test_one_input, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
