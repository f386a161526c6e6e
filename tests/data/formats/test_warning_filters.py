"""The filters of warnings, which belong to the process, while files are decoded in threads and processes fork."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import wavfile

from ptq.data.formats.decode import decode
from ptq.data.formats.read_wav import read_wav
from ptq.data.formats.warning_filters import separate_filters

SECONDS = 60


def _image(folder: Path) -> Callable[[], object]:
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    return lambda: decode(folder / "a.png", "RGB").tobytes()


def _sound(folder: Path) -> Callable[[], object]:
    wavfile.write(folder / "a.wav", 8000, np.arange(64, dtype=np.int16))
    return lambda: read_wav(folder / "a.wav", 8000).tobytes()


@pytest.mark.parametrize("make", [_image, _sound])
def test_files_decoded_in_threads_leave_the_filters_of_warnings(
    make: Callable[[Path], Callable[[], object]], tmp_path: Path
) -> None:
    read = make(tmp_path)
    before, interval = list(warnings.filters), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(lambda _: read(), range(400)))
        after = list(warnings.filters)
    finally:
        sys.setswitchinterval(interval)
        warnings.filters[:] = before  # type: ignore[index] # a list; for the tests that follow
    assert found == {read()}
    assert after == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_a_thread_decodes_can_decode() -> None:
    before, inside = len(warnings.filters), threading.Event()

    def decode_slowly() -> None:
        with separate_filters():
            warnings.simplefilter("ignore")
            inside.set()
            time.sleep(0.3)

    thread = threading.Thread(target=decode_slowly)
    thread.start()
    assert inside.wait(SECONDS)
    child = os.fork()
    if child == 0:
        with separate_filters():
            os._exit(0 if len(warnings.filters) == before else 1)
    thread.join()
    deadline = time.monotonic() + SECONDS
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
