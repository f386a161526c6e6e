"""SciPy's special functions, loaded when they are first needed.

Their import takes 0.2 s. Many models need none of them, and ``ptq ops`` lists operators without computing any.
"""

from __future__ import annotations

from typing import Any


def load_special_functions() -> Any:
    """The module `scipy.special`."""
    from scipy import special

    return special
