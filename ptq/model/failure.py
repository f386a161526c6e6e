"""A float model opened and prepared; and who is at fault where something fails, the model or ptq?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import PtqError
from ptq.model.graph import Graph
from ptq.model.session import Session


@contextmanager
def explain_failure(graph: Graph, feed: Mapping[str, NDArray[Any]] | None = None) -> Iterator[None]:
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
