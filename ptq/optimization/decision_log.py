"""The decisions of a quantization as lines of the log: the sentences of the report, and the nodes that stay float."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping

from ptq.core.wording import plural

_LOG = logging.getLogger("ptq")


def log_decisions(sentences: Iterable[str], known: Container[str] = ()) -> None:
    """Log each sentence of the report at INFO, except the known ones."""
    for sentence in sentences:
        if sentence and sentence not in known:
            _LOG.info("%s", sentence)


def log_float_nodes(floats: Mapping[str, str]) -> None:
    """Log for each reason at INFO how many nodes stay float, and at DEBUG which.

    Args:
        floats: The reason by the name of the node.
    """
    for reason, count in Counter(floats.values()).most_common():
        _LOG.info("float: %s: %s", plural(count, "node"), reason)
        for name in (name for name, why in floats.items() if why == reason):
            _LOG.debug("float: %s: %s", name, reason)
