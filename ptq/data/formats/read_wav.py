"""Signals of WAV files: PCM of 8 to 64 bits or floats, as float32 in −1 … 1 at one sample rate.

Channels are mixed to their mean. The signal is resampled by a polyphase filter, `scipy.signal.resample_poly`.
"""

from __future__ import annotations

import math
import re
import struct
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core import files
from ptq.core.errors import DataError
from ptq.data.formats.warning_filters import separate_filters
from ptq.data.preprocessing.audio_preprocess import HIGHEST_RATE, LOWEST_RATE

MAX_FILE_BYTES = 2**29
"""Largest file; 45 minutes of 48 kHz stereo in 16 bits."""
MAX_VALUES = 2**28
"""Longest signal after resampling; 1 GiB of float32."""
MAX_PEAK = 2.0
"""Largest float value, 6 dB above full scale. Larger ones are unscaled integers."""

_CUT = "the file ends early; copy it again, or remove it"


def read_wav(path: Path, sample_rate: int) -> NDArray[np.float32]:
    """The signal of a WAV file.

    Args:
        path: The file.
        sample_rate: Rate of the result, in Hz.

    Returns:
        Values of −1 … 1. Resampling can exceed the peak of a file; such values are clipped.

    Raises:
        DataError: It is not a WAV file, is damaged, empty or too long, or its values have no fixed range.
    """
    rate, values = _decode(path)
    if values.size == 0:
        raise DataError(f"{path}: the WAV file has no samples; remove it")
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise DataError(
            f"{path}: a sample rate of {rate} Hz is not within {LOWEST_RATE} … {HIGHEST_RATE} Hz; "
            "repair the file"
        )
    if values.shape[0] * sample_rate > MAX_VALUES * rate:
        raise DataError(
            f"{path}: the signal is too long; cut it to {MAX_VALUES // sample_rate} seconds"
        )
    signal = _scale(values, path)
    if signal.ndim == 2:
        signal = signal.mean(axis=1)
    if rate != sample_rate:
        from scipy.signal import resample_poly  # a second of import time

        common = math.gcd(rate, sample_rate)
        signal = resample_poly(signal, sample_rate // common, rate // common)
    return np.clip(signal, -1, 1).astype(np.float32)


def fit_length(signal: NDArray[Any], length: int) -> NDArray[Any]:
    """The signal with a length: cut at the center, or with zeros at the end."""
    start = max(0, (signal.size - length) // 2)
    return np.pad(signal[start : start + length], (0, max(0, length - signal.size)))


def _decode(path: Path) -> tuple[int, NDArray[Any]]:
    """Rate in Hz and values: time, or time × channels."""
    from scipy.io import wavfile

    try:
        files.require_regular(path)
        if path.stat().st_size > MAX_FILE_BYTES:
            raise DataError(
                f"{path}: the file is too large; the limit is {MAX_FILE_BYTES >> 20} MiB"
            )
        content = path.read_bytes()
        if content[:4] not in (b"RIFF", b"RIFX", b"RF64") or content[8:12] != b"WAVE":
            raise DataError(f"{path}: not a WAV file; convert it to WAV, or remove it")
        with separate_filters():
            warnings.simplefilter("ignore", wavfile.WavFileWarning)  # chunks without samples
            warnings.filterwarnings("error", ".*EOF", wavfile.WavFileWarning)
            # a stream in memory: the header of a file of 44 bytes can promise gigabytes
            rate, values = wavfile.read(BytesIO(content))
    except DataError:
        raise
    except (OSError, EOFError, MemoryError, OverflowError, ValueError) as error:
        raise _build_unreadable_error(path, _CUT if _is_cut(error) else error) from error
    except (struct.error, TypeError, LookupError, ArithmeticError, UnboundLocalError) as error:
        raise _build_unreadable_error(path, "its header is damaged") from error
    except wavfile.WavFileWarning as error:
        raise _build_unreadable_error(path, _CUT) from error
    return int(rate), values


def _is_cut(error: Exception) -> bool:
    """Whether numpy found that the content is no whole number of values."""
    return bool(re.search("cannot reshape array|multiple of element size", str(error)))


def _build_unreadable_error(path: Path, reason: Exception | str) -> DataError:
    text = " ".join(str(getattr(reason, "strerror", None) or reason).split())
    return DataError(f"{path}: cannot read the WAV file: {text or type(reason).__name__}")


def _scale(values: NDArray[Any], path: Path) -> NDArray[np.float64]:
    """Values of −1 … 1. PCM of 8 bits is unsigned; PCM of 24 bits stands in the upper bits of an int32."""
    if values.dtype.kind == "u":
        return (values.astype(np.float64) - 128) / 128
    if values.dtype.kind == "i":
        return values / -float(np.iinfo(values.dtype).min)
    peak = float(np.abs(values).max())
    if not peak <= MAX_PEAK:
        raise DataError(
            f"{path}: float values up to {peak:g} are no audio of -1 … 1; scale the file"
        )
    return values.astype(np.float64)
