"""A float model opened and prepared; and who is at fault where something fails, the model or ptq?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ptq.errors import PtqError
from ptq.graph import Graph
from ptq.models import Model, open_model, require_float
from ptq.rewrite.prepare import Prepared, prepare
from ptq.session import Session


@contextmanager
def blaming(graph: Graph) -> Iterator[None]:
    """Ask ONNX Runtime about a model that something fell over.

    Operands of a wrong type or length: nothing in ONNX's checker looks at them.

    Raises:
        ModelError: ONNX Runtime refuses the model too, and says why.
    """
    try:
        yield
    except PtqError:
        raise
    except Exception:
        Session(graph, optimize="none")
        raise


def made_ready(model: Model) -> tuple[Graph, Prepared]:
    """The model as given, and prepared.

    Raises:
        ModelError: It cannot be read, is no float model, or is one that ONNX Runtime refuses.
    """
    graph = require_float(open_model(model))
    with blaming(graph):
        return graph, prepare(graph)
