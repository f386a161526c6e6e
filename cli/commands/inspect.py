"""Command ``inspect``: what will be quantized, or how a quantized model was made."""

from __future__ import annotations

from ..options import shared as o


def inspect(
    model: o.AnyModel,
    target: o.Target = "ort",
    skip: o.Skip = None,
    opset: o.Opset = "auto",
    json: o.Json = None,
) -> None:
    """Show what will be quantized, without data.

    Nodes that stay in float are listed with the reason. Of a quantized model, show how it was made, the
    preprocessing that it records, and which nodes run in integers.
    """
    from ptq.api import inspect as verb

    from .. import outputs
    from ..documents.write_document import write_document
    from ..render.tables import render_inspection

    outputs.check_outputs([model], [], json)
    inspection = verb.inspect(model, target=target, skip=skip or (), opset=opset)
    if not write_document(json, inspection):
        render_inspection(inspection)
