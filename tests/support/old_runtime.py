"""Tests of what an old ONNX Runtime does not have, or computes otherwise."""

from __future__ import annotations

import pytest

from ptq.model.machine.ort_version import INSTALLED, ORT_VERSION, Version


def skip_before(version: Version, flaw: str) -> None:
    """Skip the test if the installed ONNX Runtime is older than the version, before which it has the flaw."""
    if version > INSTALLED:
        pytest.skip(f"ONNX Runtime {ORT_VERSION}: before {version[0]}.{version[1]} it {flaw}")
