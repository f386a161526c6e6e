"""Labels of samples, checked against the classes of the model."""

from __future__ import annotations

from collections.abc import Mapping

from ptq.core.errors import DataError


def require_class(label: int, classes: Mapping[str, int], where: str) -> None:
    """Make sure that a label is a class of the model's.

    Args:
        label: It; -1 for none.
        classes: How many scores each output holds, for outputs that hold some.
        where: What to call the sample, or samples.

    Raises:
        DataError: It is beyond all of them.
    """
    if not classes or label < max(classes.values()):
        return
    name = max(classes, key=lambda name: classes[name])
    raise DataError(
        f"{where}: label {label} is none of the {classes[name]} classes of output {name}, 0 to "
        f"{classes[name] - 1}; count labels and class folders as the model does, or give samples without"
    )
