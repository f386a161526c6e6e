"""Clamps that LiteRT's files fuse into the operator before them, whose kernel may round bounds by its own rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ptq.executor.arithmetics.node_site import FUSED_INTO, Site
from ptq.executor.program import Program, Step

_FUSES = frozenset(["Add", "Conv", "Gemm", "MatMul", "MaxPool", "Mul", "Sub"])
"""Operators with kernels of such a rule; `ptq.rewrite.tflite` fuses clamps into these, as TensorFlow's converter."""


def mark_fused_clamps(program: Program) -> Program:
    """Return the program whose fused clamps have the operator before them as an attribute.

    A clamp is fused if it keeps scale and zero point, and nothing else reads its input.
    """
    written = {
        step.outputs[0]: step
        for step in program.steps
        if isinstance(step, Step) and step.op in _FUSES
    }
    readers = Counter(name for step in program.steps for name in step.inputs)
    readers.update(program.outputs)

    def marked(step: Step) -> Step:
        source = step.inputs[0] if step.op == "Clip" else None
        maker = written.get(source or "")
        if source is None or maker is None or readers[source] != 1:
            return step
        if program.params.get(source) != program.params.get(step.outputs[0]):
            return step
        return replace(step, attrs={**step.attrs, FUSED_INTO: _build_site(program, maker)})

    steps = tuple(marked(s) if isinstance(s, Step) else s for s in program.steps)
    return replace(program, steps=steps)


def _build_site(program: Program, step: Step) -> Site:
    return Site(
        step.op,
        step.attrs,
        tuple(program.params.get(name or "") for name in step.inputs),
        tuple(program.params.get(name) for name in step.outputs),
        tuple(program.constants.get(name or "") for name in step.inputs),
    )
