"""Check of labels against the classes of the model."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.errors import DataError


def require_class(label: int, classes: Mapping[str, int], where: str) -> None:
    """Check that a label is a class of the model.

    Args:
        label: The label; -1 for none.
        classes: Number of class scores of each output that has scores.
        where: Name of the sample or samples in the error.

    Raises:
        DataError: The label exceeds the classes of every output.
    """
    if not classes or label < max(classes.values()):
        return
    name = max(classes, key=lambda name: classes[name])
    raise DataError(
        f"{where}: label {label} is not a class of output {name}, whose classes are 0 to "
        f"{classes[name] - 1}; number labels and class folders as the model does; for samples without "
        "label, or to be ignored, give -1"
    )
