"""Option texts → values for the verbs of ptq."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ptq.core.errors import UsageError

if TYPE_CHECKING:
    from ptq.evaluation.user_metric import Metric


def parse_shard(text: str | None) -> tuple[int, int] | None:
    """Parse ``K/N`` into two numbers.

    Raises:
        UsageError: The text has another form.
    """
    if text is None:
        return None
    index, _, count = text.partition("/")
    if not (index.isdecimal() and count.isdecimal()):
        raise UsageError(f"--shard {text} is not K/N; for three shards write 0/3, 1/3 and 2/3")
    return int(index), int(count)


def read_metric(reference: str | None) -> Metric | None:
    """Import the metric ``module:callable``.

    Raises:
        UsageError: It cannot be imported.
    """
    if reference is None:
        return None
    from ptq.data.import_callable import import_callable

    found: Callable[..., Any] = import_callable(reference)
    return found
