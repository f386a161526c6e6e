"""How far are values from those of the float model, and is that too far?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Outputs = list[NDArray[Any]]


@dataclass(frozen=True, eq=False)
class CheckFailure:
    """What is wrong with a quantized model.

    Attributes:
        said: That, in words.
        shares: Where it is the distance from float alone, by output the energy of the error over the output's own.
        most: By output, the greatest share that is not too far.
        by_values: Whether values that are a little off may be all that is at fault: they are too far, or decide how
            long an output is.
        lengths: Whether it is lengths alone.
        edges: The tensors that ``shares`` are of, where they are not of the outputs.
    """

    message: str
    error_shares: NDArray[np.float64] | None = None
    max_share: float = math.inf
    by_values: bool = False
    only_lengths: bool = False
    boundary_tensors: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message


def compare_outputs(
    names: Sequence[str], truth: Sequence[Outputs], outputs: Sequence[Outputs], floor: float
) -> CheckFailure | None:
    """How far all samples' outputs are from the truth, if that is too far, or NaN.

    An output that is of another length in some sample is compared in none: if values decide how long it is, they
    decide what stands where in it too.
    """
    most, other = 10 ** (-floor / 10), ""
    signal, noise = np.zeros(len(names)), np.zeros(len(names))
    for position, name in enumerate(names):
        pairs = [(t[position], o[position]) for t, o in zip(truth, outputs, strict=False)]
        for t, o in pairs:
            if t.ndim != o.ndim:
                return CheckFailure(f"output {name} has shape {list(o.shape)}, not {list(t.shape)}")
            if t.shape != o.shape:
                other = other or f"output {name} has shape {list(o.shape)}, not {list(t.shape)}"
        if any(t.shape != o.shape for t, o in pairs):
            continue
        for t, o in pairs:
            if t.dtype.kind != "f":
                continue
            finite = np.isfinite(t)
            if not np.isfinite(o[finite]).all():
                return CheckFailure(f"output {name} brings NaN or Inf")
            real = t[finite].astype(np.float64)
            signal[position] += float((real**2).sum())
            noise[position] += float(((o[finite] - real) ** 2).sum())
        if noise[position] and not signal[position]:
            return CheckFailure(
                f"output {name} is too far from float (its signal is 0)", by_values=True
            )
    shares = noise / np.where(signal > 0, signal, 1.0)
    if (noise > signal * most).any():
        worst = int(shares.argmax())
        ratio = f"{sqnr_db(float(shares[worst])):.1f} dB"
        said = f"output {names[worst]} is too far from float ({ratio})"
        return CheckFailure(said, shares, most, by_values=True)
    return CheckFailure(other, by_values=True, only_lengths=True) if other else None


def sqnr_db(share: float) -> float:
    """Signal over error, of the error's share of the signal's energy."""
    return -10 * math.log10(share) if share > 0 else math.inf
