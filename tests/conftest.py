"""Lets every test import what supports it, and its processes be interrupted.

The tests themselves, some 350,000 objects, are kept out of Python's garbage collection: each full collection took a
quarter of a second, and the tests of quantization most of their time.
"""

import gc
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "vectors"))
sys.path.insert(0, str(Path(__file__).parent / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "howto" / "models"))

import exact_sums
import hypothesis  # before `gc.freeze`: its plugins ask the collector who refers to their objects
import one_thread
import pytest
from compat_subset import COMPAT_FILES

exact_sums.enable_exact_sums()
one_thread.use_one_thread()
# a busy machine takes longer than any deadline
hypothesis.settings.register_profile("ptq", deadline=None)
hypothesis.settings.load_profile("ptq")


@pytest.fixture
def native_sums() -> Iterator[None]:
    """This process adds products as other processes do, which no test has prepared."""
    with exact_sums.use_native_sums():
        yield


@pytest.fixture(scope="module")
def native_sums_in_module() -> Iterator[None]:
    """The same for all tests of a module, and for what they share."""
    with exact_sums.use_native_sums():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, and their objects never."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the subset."""
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).as_posix() in COMPAT_FILES:
            item.add_marker(pytest.mark.compat)


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs start
    signal.signal(signal.SIGINT, signal.default_int_handler)
