"""Modules of other packages that load when they are first used, in a process of ptq.

onnx-ir always imports SymPy, which takes as long as ONNX Runtime, onnx and numpy together. It uses SymPy only to
compute with symbolic dimensions, which ptq does not do. SciPy always imports all of numpy, its test tools and its
compiler of Fortran included, and uses neither.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

_LAZY = frozenset({"sympy", "onnx_ir._symbolic_shapes", "numpy.f2py", "numpy.testing"})


class _LazyFinder(MetaPathFinder):
    """Finds the modules that load late; all others are left to the finders that follow."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a module that loads late; None for any other."""
        spec = PathFinder.find_spec(name, path, target) if name in _LAZY else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def install_lazy_modules() -> None:
    """Let the modules load late from now on."""
    sys.meta_path.insert(0, _LazyFinder())


def install_and_call(module: str, function: str, *arguments: Any) -> None:
    """Let the modules load late, then load a module and call a function of it: what a new process does first."""
    install_lazy_modules()
    getattr(importlib.import_module(module), function)(*arguments)
