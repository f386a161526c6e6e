"""A callable of the user's own module, named as ``module:callable``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from ptq.core.errors import UsageError


def import_callable(reference: str) -> Callable[..., Any]:
    """The callable to which ``module:name`` refers; the module may be in the working folder.

    Raises:
        UsageError: The module or name does not exist, or the object is not callable.
    """
    module, _, attribute = reference.partition(":")
    if not module or not attribute:
        raise UsageError(f"{reference or '(nothing)'}: is not of the form module:callable")
    # At the end of the path, so that no file in the working folder hides an installed module.
    try:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    # The import runs the user's module: any exception becomes a one-line message and is chained.
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{reference}: cannot import it: {type(error).__name__}: {reason}"
        ) from error
    if not callable(found):
        raise UsageError(f"{reference}: has type {type(found).__name__}; give a callable")
    imported: Callable[..., Any] = found
    return imported
