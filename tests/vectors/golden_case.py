"""One recorded case: a site, its inputs, and the bytes that the kernel must return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core.errors import UnsupportedError
from ptq.core.types import INT8, INT16, INT32, UINT8, QuantParams
from ptq.executor.arithmetics.node_site import KernelMaker, Site

_QTYPES = {"int8": INT8, "uint8": UINT8, "int16": INT16, "int32": INT32}


@dataclass(frozen=True, eq=False)
class GoldenCase:
    """One site with its inputs and the output of a runtime.

    Attributes:
        label: Name of the runtime.
        site: The site of the node.
        inputs: Inputs by position, including constants.
        expected: Output of the runtime.
        maker: Kernel maker of the arithmetic; None if it has none.
        channels_first: Whether the channels of the kernel's output go back to axis 1 before the comparison.
    """

    label: str
    site: Site
    inputs: tuple[NDArray[Any] | None, ...]
    expected: NDArray[Any]
    maker: KernelMaker | None
    channels_first: bool = False

    def run(self) -> NDArray[Any]:
        """Run the kernel and return its output.

        Raises:
            UnsupportedError: The arithmetic has no kernel for the site.
        """
        if self.maker is None:
            raise UnsupportedError(
                f"no kernel for {self.site.op} in this arithmetic; keep it in float"
            )
        output = self.maker(self.site)(self.inputs)
        return np.moveaxis(output, -1, 1) if self.channels_first else output


def to_qparams(
    scale: NDArray[Any] | None, zero_point: NDArray[Any] | None, dtype: Any, axis: int
) -> QuantParams | None:
    """Quantization parameters of a recorded tensor; None without a scale.

    Raises:
        UnsupportedError: The type is not int8, uint8, int16 or int32.
    """
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
    """Attributes of a case, without those that are null."""
    return {name: value for name, value in case["attributes"].items() if value is not None}
