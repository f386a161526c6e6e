"""Record small vectors: one-operator models run in LiteRT and in ONNX Runtime.

    python tests/vectors/make.py litert|litert-xnnpack|ort|ort-version

``litert`` runs LiteRT's reference kernels, ``litert-xnnpack`` its default ones; both need ai-edge-litert 2.3.0.
``ort`` needs onnxruntime on a processor with VNNI (elsewhere u8 × s8 saturates). Each writes index.json and one .npz
a case into the folder of that name beside this file. ``ort-version`` records what versions of onnxruntime compute
otherwise, into the folder of the installed version: ``ort-1.32``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
SEEDS = (1, 2)


def save(folder: str, cases: list[dict[str, Any]], arrays: list[dict[str, Any]]) -> None:
    """Write the cases and their index."""
    target = HERE / folder
    target.mkdir(exist_ok=True)
    for case, values in zip(cases, arrays, strict=True):
        np.savez_compressed(target / case["file"], **values)
    (target / "index.json").write_text(json.dumps({"format": 1, "cases": cases}) + "\n")


class Draw:
    """Random tensors of one seed; even seeds have power-of-two scales, which tie."""

    def __init__(self, seed: int) -> None:
        self.rng, self.ties = np.random.default_rng(seed), seed % 2 == 0

    def scale(self, near: float = 0.03) -> float:
        real = near * np.exp(self.rng.uniform(-0.7, 0.7))
        return float(np.float32(2.0 ** np.round(np.log2(real)) if self.ties else real))

    def q(self, *shape: int, dtype: Any = np.int8, low: int = -128, high: int = 127) -> Any:
        return self.rng.integers(low, high + 1, shape).astype(dtype)

    def tensor(self, name: str, value: Any, scale: Any = None, zero: Any = None) -> dict[str, Any]:
        """An activation that arrives at run time."""
        scale = self.scale() if scale is None else scale
        zero = int(self.q(1)[0]) if zero is None else zero
        return {"name": name, "role": "input", "value": value, "scale": [scale], "zero": [zero]}

    def weight(self, name: str, value: Any, channels: int, axis: int) -> dict[str, Any]:
        """A constant with a scale a channel and zero point 0."""
        scales = [self.scale(0.01) for _ in range(channels)]
        zeros = [0] * channels
        return {
            "name": name,
            "role": "const",
            "value": value,
            "scale": scales,
            "zero": zeros,
            "axis": axis,
        }


def setting(name: str, value: Any, dtype: Any = np.int32) -> dict[str, Any]:
    """A constant that is not quantized."""
    return {
        "name": name,
        "role": "const",
        "value": np.asarray(value, dtype),
        "scale": [],
        "zero": [],
    }


def bias(d: Draw, x: dict[str, Any], w: dict[str, Any]) -> dict[str, Any]:
    """An int32 bias in units of the accumulator."""
    scales = [float(np.float32(x["scale"][0]) * np.float32(s)) for s in w["scale"]]
    value = d.q(len(scales), dtype=np.int32, low=-3000, high=3000)
    return {
        "name": "bias",
        "role": "const",
        "value": value,
        "scale": scales,
        "zero": [0] * len(scales),
    }


WINDOW = {"stride_h": 2, "stride_w": 1, "padding": "SAME"}


def litert_cases(d: Draw) -> list[tuple[str, dict[str, Any], list[dict[str, Any]], Any, Any]]:
    """(op, attributes, inputs, output scale, output zero point); None draws the parameter."""
    x = d.tensor("input", d.q(1, 7, 6, 4))
    conv = d.weight("filter", d.q(5, 3, 2, 4, low=-127), 5, 0)
    deep = d.weight("filter", d.q(1, 3, 3, 8, low=-127), 8, 3)
    turned = d.weight("weights", d.q(3, 3, 3, 4, low=-127), 3, 0)
    flat, dense = d.tensor("input", d.q(3, 40)), d.weight("weights", d.q(6, 40, low=-127), 6, 0)
    pair = [d.tensor("input1", d.q(2, 9, 20)), d.tensor("input2", d.q(1, 1, 20))]
    other = [d.tensor("lhs", d.q(2, 5, 9)), d.tensor("rhs", d.q(2, 9, 4))]
    every = d.tensor("input", np.arange(-128, 128, dtype=np.int8).reshape(4, 64))
    rows, same = d.tensor("input", d.q(6, 11)), (x["scale"][0], x["zero"][0])
    real = {
        "name": "input",
        "role": "input",
        "value": d.rng.normal(0, 2, (5, 30)),
        "scale": [],
        "zero": [],
    }
    real["value"] = np.round(real["value"] * 64).astype(np.float32) / np.float32(64)
    alpha = d.tensor("alpha", d.q(1, 1, 4)) | {"role": "const"}
    image = setting("size", [9, 11])
    sized = {"size": [9, 11], "align_corners": False, "half_pixel_centers": d.ties}
    block, pads = setting("block", [2, 3]), setting("paddings", [[1, 0], [0, 0]])
    dilated = {"dilation_h": 1, "dilation_w": 1}
    later = Draw(100 + int(d.ties))  # later cases, so that the tensors above stay as they are
    positive = later.tensor("input", later.q(1, 256, low=0), zero=0)
    # a divisor is not zero and no quotient below a step: there LiteRT stops, or shifts by more than 31 bits
    dividend = later.tensor("input1", later.q(4, 64, low=-120, high=-30), zero=7)
    divisor = later.tensor("input2", later.q(4, 64, low=-20, high=7), zero=-21)
    several = later.tensor("input", np.arange(-128, 128, dtype=np.int8).reshape(4, 64))
    return [
        ("CONV_2D", WINDOW | dilated | {"activation": "NONE"}, [x, conv, bias(d, x, conv)], 0.4, None),
        ("CONV_2D", WINDOW | dilated | {"activation": "RELU6"}, [x, conv, bias(d, x, conv)], 0.05, -128),
        ("DEPTHWISE_CONV_2D", WINDOW | dilated | {"depth_multiplier": 2, "activation": "RELU",
                                                  "stride_w": 2}, [x, deep, bias(d, x, deep)], 0.2, None),
        ("TRANSPOSE_CONV", {"stride_h": 2, "stride_w": 2, "padding": "SAME", "activation": "NONE",
                            "output_shape": [1, 14, 12, 3]},
         [setting("output_shape", [1, 14, 12, 3]), turned, x, bias(d, x, turned)], 0.3, None),
        ("FULLY_CONNECTED", {"activation": "NONE"}, [flat, dense, bias(d, flat, dense)], 0.4, None),
        ("BATCH_MATMUL", {"adj_x": False, "adj_y": False}, other, 0.5, None),
        ("ADD", {"activation": "NONE"}, pair, None, None),
        ("SUB", {"activation": "RELU"}, pair, None, None),
        ("MUL", {"activation": "NONE"}, pair, 0.1, None),
        ("AVERAGE_POOL_2D", WINDOW | {"filter_h": 3, "filter_w": 2, "activation": "NONE"}, [x], *same),
        ("MAX_POOL_2D", WINDOW | {"filter_h": 2, "filter_w": 3, "activation": "RELU"}, [x], *same),
        ("MEAN", {"axis": [1, 2], "keep_dims": True}, [x, setting("axis", [1, 2])], None, None),
        ("QUANTIZE", {}, [every], None, None),
        ("QUANTIZE", {}, [real], None, None),
        ("LOGISTIC", {}, [every], 1 / 256, -128),
        ("TANH", {}, [every], 1 / 128, 0),
        ("SOFTMAX", {"beta": 1.0}, [rows], 1 / 256, -128),
        ("LOG_SOFTMAX", {}, [rows], 16 / 256, 127),
        ("L2_NORMALIZATION", {"activation": "NONE"}, [rows], 1 / 128, 0),
        ("RELU6", {"activation": "RELU6"}, [every], None, None),
        ("LEAKY_RELU", {"alpha": 0.25 if d.ties else -0.2}, [every], None, None),
        ("PRELU", {}, [x, alpha], None, None),
        ("HARD_SWISH", {}, [every], None, None),
        ("LESS", {}, pair, "bool", None),
        ("RESIZE_BILINEAR", sized, [x, image], *same),
        ("RESIZE_NEAREST_NEIGHBOR", sized, [x, image], *same),
        ("SPACE_TO_BATCH_ND", {"block": [2, 3], "paddings": [[1, 0], [0, 0]]}, [x, block, pads], *same),
        ("ABS", {}, [several], None, None),
        ("EXP", {}, [several], None, None),
        ("LOG", {}, [several], None, None),
        ("GELU", {"approximate": d.ties}, [several], None, None),
        ("SQRT", {}, [positive], 0.01, None),
        ("DIV", {"activation": "NONE"}, [dividend, divisor], 0.4, None),
    ]  # fmt: skip


def litert_choices(d: Draw) -> list[tuple[str, dict[str, Any], list[dict[str, Any]], Any, Any]]:
    """The same of operators that compare, choose and move."""
    a, b = d.tensor("input1", d.q(2, 5, 7)), d.tensor("input2", d.q(7))
    x = d.tensor("input", d.q(4, 5, 6, 3))
    same, alike = (x["scale"][0], x["zero"][0]), (a["scale"][0], a["zero"][0])
    joined = {**b, "scale": a["scale"], "zero": a["zero"]}
    condition = {**setting("condition", d.q(2, 5, 1) > 0, np.bool_), "role": "input"}
    axis = {"axis": [1, 3], "keep_dims": d.ties}
    paddings = [[1, 0], [0, 2], [0, 0], [1, 1]]
    strided = {"begin": [0, 4, 0, 0], "end": [4, -6, 5, 3], "strides": [1, -2, 2, 1]}
    masks = {"begin_mask": 4, "end_mask": 1, "shrink_axis_mask": 0}
    filling = {**x, **setting("constant", d.q(1), np.int8), "scale": x["scale"], "zero": x["zero"]}
    blocks = [setting("block", [2, 1]), setting("crops", [[1, 0], [0, 2]])]
    compared = ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS_EQUAL"]
    return [
        *((op, {}, [a, b], "bool", None) for op in compared),
        ("MAXIMUM", {}, [a, joined], *alike),
        ("MINIMUM", {}, [a, joined], *alike),
        ("SELECT_V2", {}, [condition, a, joined], *alike),
        ("CONCATENATION", {"axis": 0, "activation": "NONE"}, [x, {**x, "name": "other"}], *same),
        ("ARG_MAX", {"axis": 2, "output_type": 2}, [x, setting("axis", 2)], "int32", None),
        ("REDUCE_MAX", axis, [x, setting("axis", axis["axis"])], *same),
        ("REDUCE_MIN", axis, [x, setting("axis", axis["axis"])], *same),
        ("TILE", {"multiples": [1, 2, 1, 2]}, [x, setting("multiples", [1, 2, 1, 2])], *same),
        ("BROADCAST_TO", {"shape": [3, 2, 5, 7]}, [{**a, "name": "input"}, setting("shape", [3, 2, 5, 7])],
         *alike),
        ("GATHER", {"axis": 1, "batch_dims": 0}, [x, setting("indices", [3, 0, 3])], *same),
        ("PADV2", {"paddings": paddings}, [x, setting("paddings", paddings), filling], *same),
        ("STRIDED_SLICE", strided | masks, [x, *(setting(n, v) for n, v in strided.items())], *same),
        ("BATCH_TO_SPACE_ND", {"block": [2, 1], "crops": [[1, 0], [0, 2]]}, [x, *blocks], *same),
    ]  # fmt: skip


def litert_extremes(d: Draw) -> list[tuple[str, dict[str, Any], list[dict[str, Any]], Any, Any]]:
    """Scales at which LiteRT shifts by more bits than its integers have; factors that ONNX takes another way."""
    left, right = d.tensor("input1", d.q(3, 40), scale=1.5), d.tensor("input2", d.q(40), scale=0.01)
    every = d.tensor("input", np.arange(-128, 128, dtype=np.int8).reshape(4, 64), scale=2e-4)
    image = {"size": [2, 8], "align_corners": False, "half_pixel_centers": False}
    x = d.tensor("input", d.q(2, 1, 14, 3))
    return [
        ("LESS", {}, [left, right], "bool", None),
        ("HARD_SWISH", {}, [every], 0.5, -3),
        (
            "RESIZE_NEAREST_NEIGHBOR",
            image,
            [x, setting("size", image["size"])],
            x["scale"][0],
            x["zero"][0],
        ),
    ]


def litert_products(d: Draw) -> list[tuple[str, dict[str, Any], list[dict[str, Any]], Any, Any]]:
    """Products by a tensor of zero point 0, which XNNPACK takes, as tuples of `litert_cases`."""
    factors = [d.tensor("lhs", d.q(2, 16, 24)), d.tensor("rhs", d.q(2, 24, 16), zero=0)]
    return [("BATCH_MATMUL", {"adj_x": False, "adj_y": False}, factors, 0.5, None)]


def litert(arithmetic: str = "litert") -> None:
    """Run the LiteRT cases with the reference kernels forced, or with the default ones (``litert-xnnpack``)."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    from flatbuffer import litert_model
    from litert_edges import litert_edges

    is_reference = arithmetic == "litert"
    resolver = OpResolverType.BUILTIN_REF if is_reference else OpResolverType.AUTO
    cases, stored = [], []
    for seed in SEEDS:
        choices = litert_choices(Draw(200 + seed))
        extremes = litert_extremes(Draw(300)) if seed == SEEDS[-1] and is_reference else []
        products = litert_products(Draw(400 + seed))
        edges = [e[:-1] for e in litert_edges() if e[-1] in ("", arithmetic)]
        last = edges if seed == SEEDS[-1] else []
        every = [*litert_cases(d := Draw(seed)), *choices, *extremes, *products, *last]
        for op, attributes, tensors, near, zero in every:
            fixed, plain = near is not None and zero is not None, isinstance(near, str)
            scale = [] if plain else [near if fixed else d.scale(near or 0.03)]
            zeros = [] if plain else [int(d.q(1)[0]) if zero is None else zero]
            wide = any(t["value"].dtype == np.int16 for t in tensors)
            dtype = np.dtype(near if plain else np.int16 if wide else np.int8)
            output = {"name": "output", "role": "output", "value": np.zeros(1, dtype),
                      "scale": scale, "zero": zeros}  # fmt: skip
            # XNNPACK takes an operator only if the file says its output's shape, which the first run tells.
            for _ in range(1 if is_reference else 2):
                model = litert_model(op, attributes, [*tensors, output])
                runner = Interpreter(model_content=model, experimental_op_resolver_type=resolver)
                runner.allocate_tensors()
                for detail in runner.get_input_details():
                    value = next(t["value"] for t in tensors if t["name"] == detail["name"])
                    runner.set_tensor(detail["index"], value)
                runner.invoke()
                output["value"] = runner.get_tensor(runner.get_output_details()[0]["index"])
            arrays = {t["name"]: t["value"] for t in [*tensors, output]}
            for t in [*tensors, output]:
                if t["scale"]:
                    arrays[f"{t['name']}__scale"] = np.float32(t["scale"])
                    arrays[f"{t['name']}__zero_point"] = np.int32(t["zero"])
            name = f"{op.lower()}_{len([c for c in cases if c['op'] == op])}"
            described = [
                {"name": t["name"], "role": t["role"], "dtype": t["value"].dtype.name,
                 "quantized_dimension": t.get("axis", 0)} for t in [*tensors, output]
            ]  # fmt: skip
            case = {"id": name, "file": f"{name}.npz", "op": op, "attributes": attributes,
                    "tensors": described}  # fmt: skip
            cases.append(case if is_reference else {**case, "arithmetic": arithmetic})
            stored.append(arrays)
    save(arithmetic, cases, stored)


def litert_xnnpack() -> None:
    """Run the LiteRT cases with the default kernels."""
    litert("litert-xnnpack")


def ort_cases(d: Draw) -> list[tuple[str, dict[str, Any], dict[str, Any], list[str]]]:
    """(op, attributes, node inputs in order, those fed at run time)."""
    dtype = np.uint8 if d.ties else np.int8

    later = Draw(
        100 + int(d.ties)
    )  # later cases, so that the tensors of the others stay as they are

    def value(*shape: int, d: Draw = d) -> Any:
        return d.q(*shape).view(np.uint8).astype(np.uint8).view(dtype)

    def chosen(*shape: int) -> Any:
        return value(*shape, d=later)

    def parameters(name: str, near: float = 0.03, kind: Any = dtype, d: Draw = d) -> dict[str, Any]:
        zero = np.zeros((), np.int8) if kind is np.int8 and name == "w" else value(d=d)
        return {f"{name}s": np.float32(d.scale(near)), f"{name}z": zero}

    x, w = value(1, 4, 6, 5), d.q(3, 4, 2, 3, low=-64, high=64)
    y = parameters("y")
    xp, wp = parameters("x"), parameters("w", 0.01, np.int8)
    wide = parameters("y", 0.4)
    added = d.q(3, dtype=np.int32, low=-2000, high=2000)
    operand = {"a": value(1, 256), **parameters("a"), "b": value(9, 1), **parameters("b")}
    every = np.arange(256, dtype=np.uint8).view(dtype).reshape(4, 64)
    matrix = d.q(20, 3, low=-64, high=64)
    pool = {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1}
    return [
        ("QLinearConv", {"pads": [1, 0, 1, 1], "strides": [2, 1]},
         {"x": x, **xp, "w": w, **wp, **wide, "b": added}, ["x"]),
        ("QLinearMatMul", {}, {"x": value(5, 20), **xp, "w": matrix, **wp, **wide}, ["x"]),
        ("QGemm", {"alpha": 0.75, "transB": 0},
         {"x": value(5, 20), **xp, "w": matrix, **wp, "b": added, **wide}, ["x"]),
        ("QLinearAdd", {}, {**operand, **y}, ["a", "b"]),
        ("QLinearMul", {}, {**operand, **parameters("y", 0.1)}, ["a", "b"]),
        ("QLinearAveragePool", pool, {"x": x, **xp, **y}, ["x"]),
        ("QLinearGlobalAveragePool", {"channels_last": 0}, {"x": x, **xp, **y}, ["x"]),
        ("QLinearSigmoid", {}, {"x": every, **xp, **y}, ["x"]),
        ("QLinearLeakyRelu", {"alpha": 0.25}, {"x": every, **xp, **y}, ["x"]),
        ("QLinearSoftmax", {"axis": -1, "opset": 13}, {"x": value(6, 11), **xp,
                                                     "ys": np.float32(1 / 256), "yz": y["yz"]}, ["x"]),
        ("QLinearConcat", {"axis": 1}, {**y, "x0": x, **parameters("x0"), "x1": x, "x1s": y["ys"],
                                        "x1z": y["yz"]}, ["x0", "x1"]),
        ("QLinearWhere", {}, {"c": later.q(2, 1, 40) > 0, "x": chosen(2, 5, 40), **parameters("x", d=later),
                              "b": chosen(5, 1), **parameters("b", d=later), **parameters("y", d=later)},
         ["c", "x", "b"]),
    ]  # fmt: skip


def ort_version_cases(d: Draw) -> list[tuple[str, dict[str, Any], dict[str, Any], list[str]]]:
    """Cases in which versions differ: results above the type's range, and output scales below 1 / (148 D)."""
    dtype, cases = np.uint8 if d.ties else np.int8, []
    least = np.iinfo(dtype).min
    for length in (2, 40):
        for scale in (1 / 256, 0.8 / (148 * length), 0.2 / (148 * length)):
            for zero in (least, least + 127, least + 200):
                x = np.concatenate([np.full((1, length), 10), d.q(3, length)]).astype(np.int64)
                arrays = {"x": x.astype(np.int8).view(dtype), "xs": np.float32(d.scale()),
                          "xz": np.zeros((), dtype), "ys": np.float32(scale),
                          "yz": np.asarray(zero, dtype)}  # fmt: skip
                cases.append(("QLinearSoftmax", {"axis": -1, "opset": 13}, arrays, ["x"]))
    return cases


def ort_version() -> None:
    """Run the cases in which versions of ONNX Runtime differ."""
    import onnxruntime

    folder = "ort-" + ".".join(onnxruntime.__version__.split(".")[:2])
    ort(folder, ort_version_cases)


def ort(folder: str = "ort", draw_cases: Any = ort_cases) -> None:
    """Run ONNX Runtime cases."""
    import onnxruntime
    from onnx import helper, numpy_helper

    cases, stored = [], []
    for seed in SEEDS:
        for number, (op, attributes, arrays, fed) in enumerate(draw_cases(Draw(seed))):
            domain = "" if op in ("QLinearConv", "QLinearMatMul") else "com.microsoft"
            graph = helper.make_graph(
                [helper.make_node(op, list(arrays), ["y"], domain=domain, **attributes)],
                "g",
                [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(arrays[n].dtype),
                                               arrays[n].shape) for n in fed],
                [helper.make_empty_tensor_value_info("y")],
                [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items() if n not in fed],
            )  # fmt: skip
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
            model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
            session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            output = session.run(None, {n: arrays[n] for n in fed})[0]
            name = f"{op.lower()}_{seed}" if folder == "ort" else f"{op.lower()}_{seed}_{number:02}"
            cases.append({"id": name, "file": f"{name}.npz", "op": op, "attributes": attributes,
                          "node_inputs": list(arrays), "runtime_inputs": fed,
                          "runtime": f"onnxruntime {onnxruntime.__version__}"})  # fmt: skip
            stored.append({**arrays, "output": output})
    save(folder, cases, stored)


if __name__ == "__main__":
    {"litert": litert, "litert-xnnpack": litert_xnnpack, "ort": ort, "ort-version": ort_version}[
        sys.argv[1]
    ]()
