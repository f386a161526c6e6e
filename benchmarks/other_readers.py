"""Networks in readers of ONNX that ptq itself does not run: TVM and tract."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

Feed = dict[str, NDArray[Any]]


def open_in_tract(model: onnx.ModelProto) -> Callable[[Feed], NDArray[Any]]:
    """A function that runs the model in tract and returns its first output.

    tract gets the shapes of the inputs as numbers, as its users give them; an open axis has length 1.
    """
    import tract

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        read = tract.onnx().load(str(path))
    for position, value in enumerate(model.graph.input):
        read.set_input_fact(position, _describe_input(value))
    loaded = read.into_model().into_runnable()
    names = [value.name for value in model.graph.input]
    return lambda feed: loaded.run([np.ascontiguousarray(feed[n]) for n in names])[0].to_numpy()


def _describe_input(value: onnx.ValueInfoProto) -> str:
    """Shape and element type as tract writes them: ``1,3,224,224,f32``."""
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    sizes = [str(side.dim_value or 1) for side in kind.shape.dim]
    return ",".join([*sizes, f"{dtype.kind}{8 * dtype.itemsize}"])


def open_in_tvm(model: onnx.ModelProto) -> Callable[[Feed], NDArray[Any]]:
    """A function that runs the model in TVM, compiled for this processor, and returns its first output."""
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    module = relax.transform.LegalizeOps()(from_onnx(model, keep_params_in_input=False))
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    names = [value.name for value in model.graph.input]

    def run(feed: Feed) -> NDArray[Any]:
        found = machine["main"](*(tvm.runtime.tensor(np.ascontiguousarray(feed[n])) for n in names))
        first = found if hasattr(found, "numpy") else found[0]
        return np.asarray(first.numpy())

    return run
