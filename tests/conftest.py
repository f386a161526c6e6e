"""Lets every test import what stands in ``tests/support`` and ``tests/vectors``, and its processes be interrupted."""

import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "vectors"))
sys.path.insert(0, str(Path(__file__).parent / "support"))

import exact_sums

exact_sums.enable_exact_sums()

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs start
    signal.signal(signal.SIGINT, signal.default_int_handler)
