"""Softmax over several trailing axes, as before opset 13: a Softmax along one axis that holds them all."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from numpy.typing import NDArray

from ptq.executor.arithmetics.node_site import Inputs, Kernel, KernelMaker, Site, require_input


def extend_to_trailing_axes(maker: KernelMaker) -> KernelMaker:
    """Return the maker, extended to sites that run along all axes from one on (attribute ``together``)."""

    def make(site: Site) -> Kernel:
        if not site.attrs.get("together"):
            return maker(site)
        axis = int(site.attrs["axis"])
        kernel = maker(replace(site, attrs={**site.attrs, "axis": -1}))

        def flattened(inputs: Inputs) -> NDArray[Any]:
            q = require_input(site, inputs, 0)
            matrix = q.reshape(prod(q.shape[:axis]), prod(q.shape[axis:]))
            return kernel([matrix, *inputs[1:]]).reshape(q.shape)

        return flattened

    return make
