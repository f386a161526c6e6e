"""Cause of an unexpected exception: the model, the sample, or a defect of ptq."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import PtqError
from ptq.model.graph import Graph
from ptq.model.session.session import Session


@contextmanager
def explain_failure(graph: Graph, feed: Mapping[str, NDArray[Any]] | None = None) -> Iterator[None]:
    """Run the block; after an unexpected exception, let ONNX Runtime check the model and the sample.

    ONNX's checker does not find operands of a wrong type or length; ONNX Runtime does.

    Args:
        graph: The model that the block works on.
        feed: A sample that the block works on.

    Raises:
        ModelError: ONNX Runtime refuses the model too; the message is its own.
        DataError: ONNX Runtime refuses the sample.
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
