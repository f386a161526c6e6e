"""Comparison of outputs with those of the float model: SQNR, NaN, shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptq.core.decibels import to_error_db
from ptq.evaluation.runs.reference import Outputs


@dataclass(frozen=True, eq=False)
class CheckFailure:
    """Why a quantized model fails its check.

    Attributes:
        message: The failure in words.
        error_shares: The error energy of each output as a share of its energy, if the SQNR is too low; else None.
        max_share: The highest share that passes.
        by_values: Whether rounding errors can be the only cause: values are too far from float, or decide the
            length of an output.
        only_lengths: Whether only lengths of outputs differ.
        boundary_tensors: The tensors that ``error_shares`` belong to; empty for the outputs.
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
    names: Sequence[str],
    reference: Sequence[Outputs],
    outputs: Sequence[Outputs],
    required_db: float,
) -> CheckFailure | None:
    """The failure of outputs on all samples: SQNR below the required one, or NaN; None if they pass.

    An output whose shape differs on one sample is not compared on any: if values decide its length, they decide the
    order of its elements too.

    Args:
        names: The names of the outputs.
        reference: The outputs of the float model on each sample.
        outputs: The outputs of the quantized model on each sample.
        required_db: The required SQNR.
    """
    max_share, other_shape = 10 ** (-required_db / 10), ""
    signal, noise = np.zeros(len(names)), np.zeros(len(names))
    for index, name in enumerate(names):
        pairs = [(r[index], o[index]) for r, o in zip(reference, outputs, strict=False)]
        for r, o in pairs:
            if r.shape != o.shape:
                message = f"output {name} has shape {list(o.shape)}, not {list(r.shape)}"
                if r.ndim != o.ndim:
                    return CheckFailure(message)
                other_shape = other_shape or message
        if any(r.shape != o.shape for r, o in pairs):
            continue
        for r, o in pairs:
            if r.dtype.kind != "f":
                continue
            finite = np.isfinite(r)
            if not np.isfinite(o[finite]).all():
                return CheckFailure(f"output {name} has NaN or Inf where the float model has none")
            real = r[finite].astype(np.float64)
            signal[index] += float((real**2).sum())
            noise[index] += float(((o[finite] - real) ** 2).sum())
        if noise[index] and not signal[index]:
            return CheckFailure(
                f"output {name} is not 0 where the float model's is 0", by_values=True
            )
    shares = noise / np.where(signal > 0, signal, 1.0)
    if (shares > max_share).any():
        worst = int(shares.argmax())
        message = (
            f"output {names[worst]} has SQNR {-to_error_db(float(shares[worst])):.1f} dB "
            f"({required_db:.0f} dB required)"
        )
        return CheckFailure(message, shares, max_share, by_values=True)
    return CheckFailure(other_shape, by_values=True, only_lengths=True) if other_shape else None
