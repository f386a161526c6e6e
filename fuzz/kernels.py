"""Comparison of the integer kernels with a runtime on random one-operator models.

    python fuzz/kernels.py litert|tflite-micro|ort [--cases 300] [--seed 0] [--ops CONV_2D,QLinearConv]

Draws ``--cases`` cases per operator, runs each in the runtime (LiteRT's or tflite-micro's reference kernels, or ONNX
Runtime) and counts elements that differ. A case that the runtime refuses counts as refused. A case that only the
kernels refuse counts as wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "vectors"))

import golden
from golden_case import GoldenCase
from litert_cases import CASES, Draw, LitertCase, Tensor
from litert_moves import DATA_MOVEMENT
from ort_cases import ORT_CASES, OrtCase, ort_output

from ptq.core.errors import PtqError
from ptq.executor.arithmetics import get_kernels

Arrays = dict[str, Any]


def run_litert(op: str, case: LitertCase) -> tuple[Mapping[str, Any], Arrays]:
    """Run a case in LiteRT's reference kernels, and describe it like a recorded case.

    Raises:
        ValueError, RuntimeError: LiteRT refuses the case.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    from flatbuffer import litert_model

    produced = _output(case, case.shape)
    tensors = [*case.tensors, produced]
    runner = Interpreter(
        model_content=litert_model(op, dict(case.attributes), tensors),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    )
    runner.allocate_tensors()
    for detail in runner.get_input_details():
        value = next(t["value"] for t in tensors if t["name"] == detail["name"])
        runner.set_tensor(detail["index"], value)
    runner.invoke()
    produced["value"] = runner.get_tensor(runner.get_output_details()[0]["index"])
    arrays = {t["name"]: t["value"] for t in tensors}
    for t in tensors:
        if t["scale"]:
            arrays[f"{t['name']}__scale"] = np.float32(t["scale"])
            arrays[f"{t['name']}__zero_point"] = np.int32(t["zero"])
    described = [
        {"name": t["name"], "role": t["role"], "dtype": t["value"].dtype.name,
         "quantized_dimension": t.get("axis", 0)} for t in tensors
    ]  # fmt: skip
    return {"op": op, "attributes": case.attributes, "tensors": described}, arrays


def _output(case: LitertCase, shape: tuple[int, ...]) -> Tensor:
    plain = isinstance(case.output, str)
    return {
        "name": "output",
        "role": "output",
        "value": np.zeros(shape, case.output if plain else np.int8),
        "scale": [] if plain else [case.output[0]],
        "zero": [] if plain else [case.output[1]],
    }


def run_tflite_micro(op: str, case: LitertCase) -> tuple[Mapping[str, Any], Arrays]:
    """Run a case in tflite-micro, which needs the output's shape; LiteRT infers that shape.

    Raises:
        ValueError, RuntimeError: One of the two runtimes refuses the case.
    """
    from flatbuffer import litert_model
    from tflite_micro import runtime

    if case.output == "bool" and any(t["scale"][0] > 1 for t in case.tensors):
        raise ValueError("tflite-micro aborts the process where it compares scales above 1")
    described, arrays = run_litert(op, case)
    produced = _output(case, arrays["output"].shape)
    model = litert_model(op, dict(case.attributes), [*case.tensors, produced])
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=1 << 22)
    for index, tensor in enumerate(t for t in case.tensors if t["role"] == "input"):
        interpreter.set_input(tensor["value"], index)
    interpreter.invoke()
    return described, {**arrays, "output": np.asarray(interpreter.get_output(0))}


def run_ort(op: str, case: OrtCase) -> tuple[Mapping[str, Any], Arrays]:
    """Run a case in ONNX Runtime, and describe it like a recorded case."""
    described = {"op": op, "attributes": case.attributes, "node_inputs": list(case.arrays),
                 "runtime_inputs": case.fed}  # fmt: skip
    return described, {**case.arrays, "output": ort_output(op, case)}


RUNTIMES: Mapping[str, tuple[Mapping[str, Callable[[Draw], Any]], Callable[..., Any]]] = {
    "litert": ({**CASES, **DATA_MOVEMENT}, run_litert),
    "tflite-micro": (
        # SPACE_TO_BATCH_ND pads with whatever its memory holds
        {k: v for k, v in DATA_MOVEMENT.items() if k != "SPACE_TO_BATCH_ND"}
        | {**CASES, "SUM": CASES["MEAN"]},
        run_tflite_micro,
    ),
    "ort": (ORT_CASES, run_ort),
}


def _with_arithmetic(name: str, trial: GoldenCase) -> GoldenCase:
    return replace(trial, label=name, maker=get_kernels(name).get(trial.site.op))


def main() -> int:
    """Draw, run and compare cases; return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runtime", choices=RUNTIMES)
    parser.add_argument("--cases", type=int, default=300, help="an operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", help="only these operators, separated by commas")
    options = parser.parse_args()
    drawn, run = RUNTIMES[options.runtime]
    chosen = options.ops.split(",") if options.ops else list(drawn)
    print(f"{'op':28}{'cases':>7}{'elements':>10}{'wrong':>8}{'refused':>9}")
    failed = False
    for op in chosen:
        wrong, elements, ran, refused = [], 0, 0, []
        for number in range(options.seed, options.seed + options.cases):
            try:
                case, arrays = run(op, drawn[op](Draw(number)))
            except (RuntimeError, ValueError) as error:  # any refusal of the runtime
                refused.append(f"{number}: {str(error).splitlines()[0]}")
                continue
            ran += 1
            elements += arrays["output"].size
            try:
                trials = [
                    _with_arithmetic(options.runtime, trial)
                    for trial in golden.to_golden_cases(case, arrays)
                ]
                count = sum(map(golden.count_wrong_elements, trials))
            except PtqError as error:
                wrong.append(f"{number}: {error}")
                continue
            if count:
                wrong.append(f"{number}: {count} of {arrays['output'].size} elements differ")
        failed = failed or bool(wrong)
        print(f"{op:28}{ran:7}{elements:10}{len(wrong):8}{len(refused):9}", flush=True)
        for line in [*wrong[:5], *sorted(set(refused))[:2]]:
            print(f"    {line}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
