"""A float model opened and prepared; and who is at fault where something fails, the model or ptq?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from ptq.errors import PtqError
from ptq.graph import Graph
from ptq.models import Model, open_model, require_float
from ptq.rewrite.prepare import Prepared, prepare
from ptq.session import Session


@contextmanager
def blaming(graph: Graph, feed: Mapping[str, NDArray[Any]] | None = None) -> Iterator[None]:
    """Ask ONNX Runtime about a model, or a sample of it, that something fell over.

    Operands of a wrong type or length: nothing in ONNX's checker looks at them.

    Raises:
        ModelError: ONNX Runtime refuses the model too, and says why.
        DataError: It refuses the sample.
    """
    try:
        yield
    except PtqError:
        raise
    except Exception:
        session = Session(graph, optimize="none")
        if feed is not None:
            session.run(feed)
        raise


def made_ready(model: Model) -> tuple[Graph, Prepared]:
    """The model as given, and prepared.

    Raises:
        ModelError: It cannot be read, is no float model, or is one that ONNX Runtime refuses.
    """
    graph = require_float(open_model(model))
    with blaming(graph):
        return graph, prepare(graph)
