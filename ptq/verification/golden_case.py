"""What is one recorded case to the kernels? A site, its inputs, and the bytes that must come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT8, INT32, UINT8, QuantParams
from ptq.executor.arithmetics.node_site import KernelMaker, Site

_QTYPES = {"int8": INT8, "uint8": UINT8, "int32": INT32}


@dataclass(frozen=True, eq=False)
class GoldenCase:
    """One site with its inputs and the runtime's output.

    Attributes:
        label: Which runtime's output it is.
        site: The node.
        inputs: Its inputs by position, constants included.
        expected: The runtime's output.
        maker: The arithmetic's kernel maker, None where it has none.
        channels_first: The output's channels return to axis 1 before it is compared.
    """

    label: str
    site: Site
    inputs: tuple[NDArray[Any] | None, ...]
    expected: NDArray[Any]
    maker: KernelMaker | None
    channels_first: bool = False

    def run(self) -> NDArray[Any]:
        """The kernel's output.

        Raises:
            UnsupportedError: The arithmetic has no kernel for the site.
        """
        if self.maker is None:
            raise UnsupportedError(
                f"no kernel for {self.site.op} in this arithmetic; leave it float"
            )
        output = self.maker(self.site)(self.inputs)
        return np.moveaxis(output, -1, 1) if self.channels_first else output


def to_qparams(
    scale: NDArray[Any] | None, zero_point: NDArray[Any] | None, dtype: Any, axis: int
) -> QuantParams | None:
    """The parameters of a recorded tensor; None without a scale."""
    if scale is None or scale.size == 0:
        return None
    qtype = _QTYPES.get(np.dtype(dtype).name)
    if qtype is None:
        raise UnsupportedError(
            f"tensors of {np.dtype(dtype).name} are not supported; use int8 or uint8"
        )
    zeros = np.zeros(scale.shape, np.int64) if zero_point is None else zero_point.astype(np.int64)
    if scale.size == 1:
        return QuantParams(scale.reshape(()), zeros.reshape(()), qtype)
    return QuantParams(scale, np.broadcast_to(zeros, scale.shape), qtype, axis)


def case_attributes(case: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a case, those that are null left out."""
    return {name: value for name, value in case["attributes"].items() if value is not None}
