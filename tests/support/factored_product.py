"""gemmlowp's factored product of two operands at once, which its kernels prepare in two steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptq.executor.arithmetics.gemmlowp import make_factored_product_preparer


def compute_factored_product(q1: Any, z1: int, q2: Any, z2: Any) -> Any:
    """Return Σ_j (q1 − z1)(q2 − z2) by eqs. 7–9 of Jacob et al. 2018; z2 is one, or one for each column."""
    zeros = np.broadcast_to(np.asarray(z2, np.int64), q2.shape[1:])
    return make_factored_product_preparer(z1)(q2, zeros)(q1)
