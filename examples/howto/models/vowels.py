"""A small recognizer of vowels in waveforms, trained with numpy alone, and synthetic speech for it.

python examples/howto/models/vowels.py FOLDER

writes vowels.onnx, and folders calibration and evaluation with a .wav for each vowel spoken. Pulses of the voice pass
three resonators, whose frequencies are those that Peterson and Barney measured (1952). The model computes a
spectrogram by a convolution, its logarithm, and two more layers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from graphs import build_model
from onnx import helper
from ridge import Array, add_ones, fit_ridge
from scipy.io import wavfile
from scipy.signal import lfilter

RATE, LENGTH, WINDOW, HOP, BANDS, FEATURES = 16000, 4800, 400, 160, 48, 96
FORMANTS = {  # Hz, of men
    "a": (730, 1090, 2440), "e": (530, 1840, 2480), "i": (270, 2290, 3010), "o": (570, 840, 2410),
    "u": (300, 870, 2240),
}  # fmt: skip
WIDTHS = (60, 90, 150)  # Hz


def speak(vowel: str, rng: np.random.Generator) -> Array:
    """A signal of LENGTH samples, −1 … 1."""
    period = RATE / rng.uniform(90, 240)
    signal = np.zeros(LENGTH)
    signal[np.arange(rng.uniform(0, period), LENGTH - 1, period).astype(int)] = 1
    tract = rng.uniform(0.9, 1.2)
    for formant, width in zip(FORMANTS[vowel], WIDTHS, strict=True):
        angle = 2 * np.pi * formant * tract * rng.uniform(0.95, 1.05) / RATE
        radius = np.exp(-np.pi * width / RATE)
        signal = lfilter([1.0], [1, -2 * radius * np.cos(angle), radius**2], signal)
    signal = signal / np.abs(signal).max() * rng.uniform(0.2, 0.9)
    return signal + rng.normal(0, 0.02, LENGTH)


def write_sounds(folder: Path, count: int, seed: int) -> None:
    """WAV files in one folder for each vowel."""
    rng = np.random.default_rng(seed)
    for number, vowel in enumerate(FORMANTS):
        place = folder / f"{number}_{vowel}"
        place.mkdir(parents=True, exist_ok=True)
        for k in range(count):
            pcm = np.clip(speak(vowel, rng) * 32767, -32768, 32767).astype(np.int16)
            wavfile.write(place / f"{k:03}.wav", RATE, pcm)


def _analysis_filters() -> Array:
    """Windowed cosines and sines, shape 2·BANDS × WINDOW."""
    frequencies = np.geomspace(150, 5000, BANDS)[:, None]
    phases = 2 * np.pi * frequencies * np.arange(WINDOW) / RATE
    return np.concatenate([np.cos(phases), np.sin(phases)]) * np.hanning(WINDOW) / 20


def _log_spectra(signal: Array, filters: Array) -> Array:
    """Logarithms of the energies, shape frames × BANDS."""
    starts = range(0, LENGTH - WINDOW + 1, HOP)
    parts = np.stack([signal[s : s + WINDOW] for s in starts]) @ filters.T
    return np.log(parts[:, :BANDS] ** 2 + parts[:, BANDS:] ** 2 + 1e-4)


def train(count: int = 120, seed: int = 0) -> onnx.ModelProto:
    """The recognizer."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(FORMANTS)), count)
    filters = _analysis_filters()
    spectra = [_log_spectra(speak(list(FORMANTS)[k], rng), filters) for k in labels]
    frames = np.concatenate(spectra)
    mean, spread = frames.mean(axis=0), frames.std(axis=0)
    first = rng.normal(size=(BANDS, FEATURES)) / np.sqrt(BANDS) / spread[:, None]
    bias = rng.uniform(-1, 1, FEATURES) - mean @ first
    hidden = np.stack([np.maximum(s @ first + bias, 0).mean(axis=0) for s in spectra])
    fitted = fit_ridge(add_ones(hidden), np.eye(len(FORMANTS))[labels], np.ones(len(labels)))
    sums = np.concatenate([np.eye(BANDS), np.eye(BANDS)], axis=1)
    constants = {
        "filters": filters[:, None], "sums": sums[:, :, None], "floor": np.array(1e-4), "axis": np.array([2]),
        "w1": first.T[:, :, None], "b1": bias, "w2": fitted[:-1], "b2": fitted[-1],
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["wave", "filters"], ["parts"], strides=[HOP]),
        helper.make_node("Mul", ["parts", "parts"], ["squares"]),
        helper.make_node("Conv", ["squares", "sums"], ["energies"]),
        helper.make_node("Add", ["energies", "floor"], ["positive"]),
        helper.make_node("Log", ["positive"], ["spectra"]),
        helper.make_node("Conv", ["spectra", "w1", "b1"], ["c1"]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("GlobalAveragePool", ["r1"], ["pooled"]),
        helper.make_node("Squeeze", ["pooled", "axis"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w2", "b2"], ["vowel"]),
    ]
    return build_model(
        nodes, {"wave": ["n", 1, LENGTH]}, {"vowel": ["n", len(FORMANTS)]}, constants
    )


if __name__ == "__main__":
    place = Path(sys.argv[1])
    write_sounds(place / "calibration", 20, seed=1)
    write_sounds(place / "evaluation", 30, seed=2)
    onnx.save(train(), place / "vowels.onnx")
