"""Operands that end ONNX Runtime's process. Oracle: ONNX Runtime, in processes that may end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from networks import build_network
from onnx import TensorProto

import ptq
from ptq.core.errors import DataError, ModelError, PtqError
from ptq.model.machine.ort_version import INSTALLED

RUN = """
import json, os, resource, sys
import numpy as np, onnxruntime
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
ended = {}
for path, feed in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        x = {n: np.array(v, t) for n, (v, t) in feed.items()}
        onnxruntime.InferenceSession(path).run(None, x)
        os._exit(0)
    ended[path] = os.WIFSIGNALED(os.waitpid(child, 0)[1])
print(json.dumps(ended))
"""
LEAST = np.iinfo(np.int64).min
SIGNAL = np.ones((1, 16, 1), np.float32)
WHOLE = {"types": {"n": TensorProto.INT64, "y": TensorProto.INT64}}
STEP = np.array(2)
HELD = {
    "an empty window": (
        build_network("y = STFT(x, s, w)", {"x": (1, 16, 1)}, s=STEP, w=SIGNAL[0, :0, 0]),
        {"x": SIGNAL},
    ),
    "frames of length 0": (
        build_network("y = STFT(x, s, , n)", {"x": (1, 16, 1)}, s=STEP, n=np.array(0)),
        {"x": SIGNAL},
    ),
    "divides -9223372036854775808 by -1": (
        build_network("y = Div(m, n)", {"n": (1,)}, m=np.array([LEAST]), opset=17, **WHOLE),
        {"n": np.array([-1])},
    ),
    "an empty depth": (
        build_network(
            "i = Cast<to=7>(x)\ny = OneHot(i, d, v)",
            {"x": (2,)},
            d=np.zeros(0, np.int64),
            v=np.float32([0, 1]),
        ),
        {"x": np.zeros(2, np.float32)},
    ),
}


def fed(
    nodes: str, shapes: dict[str, Any], feed: dict[str, Any], **more: Any
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    return build_network(nodes, shapes, **more), {n: np.asarray(a) for n, a in feed.items()}


FED = {
    "frames of length 0": fed(
        "y = STFT(x, s, , n)", {"x": (1, 16, 1), "n": ()}, {"x": SIGNAL, "n": 0}, s=STEP,
        types={"n": TensorProto.INT64},
    ),
    "an empty window": fed(
        "y = STFT(x, s, w)", {"x": (1, 16, 1), "w": ("N",)},
        {"x": SIGNAL, "w": np.zeros(0, np.float32)}, s=STEP,
    ),
    "divides -9223372036854775808 by -1": fed(
        "y = Mod(n, m)", {"n": (1,)}, {"n": [LEAST]}, m=np.array([-1]), **WHOLE
    ),
}  # fmt: skip


REPAIRED = INSTALLED >= (1, 32)
"""Whether ONNX Runtime itself refuses an empty depth, and computes Mod of the least integer by -1."""


def _ends(model: onnx.ModelProto) -> bool:
    return not (REPAIRED and model.graph.node[-1].op_type in ("OneHot", "Mod"))


def test_onnx_runtime_ends_on_them_unless_its_version_is_repaired(tmp_path: Path) -> None:
    given, expected = [], {}
    for number, (model, feed) in enumerate([*HELD.values(), *FED.values()]):
        expected[str(tmp_path / f"{number}.onnx")] = _ends(model)
        onnx.save(model, tmp_path / f"{number}.onnx")
        plain = {n: (a.tolist(), a.dtype.name) for n, a in feed.items()}
        given.append((str(tmp_path / f"{number}.onnx"), plain))
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(given)], capture_output=True, text=True, check=True
    )
    ended = json.loads(done.stdout)
    reads_past_the_end = [p for p, (m, _) in zip(expected, [*HELD.values(), *FED.values()], strict=True)
                          if m.graph.node[-1].op_type == "OneHot"]  # fmt: skip
    for path in reads_past_the_end:  # whether that ends the process depends on the build
        assert expected.pop(path) or not ended[path]
        ended.pop(path)
    assert ended == expected


@pytest.mark.parametrize("fault", ["an empty window", "frames of length 0", "an empty depth"])
def test_a_model_with_such_constants_is_refused_by_name(fault: str) -> None:
    model, feed = HELD[fault]
    name = model.graph.node[-1].op_type
    if not _ends(model):
        with pytest.raises(PtqError, match=name):  # ONNX Runtime's own words
            ptq.evaluate(model, [feed])
        return
    with pytest.raises(ModelError, match=rf"^{name} \S+ has {fault}: this crashes"):
        ptq.evaluate(model, [feed])
    with pytest.raises(ModelError, match=rf"^{name} \S+ has {fault}: this crashes"):
        ptq.quantize(model, [feed], threads=1)


@pytest.mark.parametrize("fault", FED)
def test_a_sample_with_such_values_is_refused_by_name(fault: str) -> None:
    model, feed = FED[fault]
    if not _ends(model):
        assert ptq.evaluate(model, [feed]).samples == 1
        return
    with pytest.raises(DataError, match=rf"^data\[0\]: {model.graph.node[0].op_type} .*{fault}"):
        ptq.evaluate(model, [feed])


def test_the_quotient_of_a_fed_divisor_is_refused() -> None:
    model, feed = HELD["divides -9223372036854775808 by -1"]
    with pytest.raises(DataError, match=r"^data\[0\]: Div \S+ divides -9223372036854775808 by -1"):
        ptq.evaluate(model, [feed])
    assert ptq.evaluate(model, [{"n": np.array([1])}]).samples == 1


def test_small_integers_and_other_divisors_run() -> None:
    model = build_network("y = Div(n, m)", {"n": (1,)}, m=np.array([-2]), opset=17, **WHOLE)
    feed = {"n": np.array([LEAST])}
    [alone] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    assert alone.tolist() == [2**62]
    assert ptq.evaluate(model, [feed]).samples == 1
