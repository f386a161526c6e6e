"""A folder of WAV files as samples; each file is one sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ptq.core.errors import DataError
from ptq.data.folder import FolderListing
from ptq.data.formats.read_wav import fit_length, read_wav
from ptq.data.input_spec import InputSpec, cast_to_input
from ptq.data.labelled_folder import LabelledFolder
from ptq.data.preprocessing.audio_preprocess import AudioPreprocess


class AudioFolder(LabelledFolder):
    """The WAV files of a folder, decoded one at a time."""

    def __init__(
        self, listing: FolderListing, inputs: Sequence[InputSpec], preprocess: AudioPreprocess
    ) -> None:
        """Raise DataError or UsageError if the model's inputs do not take audio."""
        if len(inputs) != 1:
            names = ", ".join(repr(spec.name) for spec in inputs) or "none"
            raise DataError(
                f"{listing.root}: audio feeds one input, but the model's inputs are {names}; give .npz"
            )
        super().__init__(listing)
        self._spec = inputs[0]
        self._preprocess = preprocess.resolved(self._spec)

    @property
    def preprocess(self) -> AudioPreprocess:
        """The preprocessing of each file."""
        return self._preprocess

    def _read_feed(self, path: Path) -> dict[str, NDArray[Any]]:
        signal = read_wav(path, self._preprocess.sample_rate)
        if self._preprocess.length is not None:
            signal = fit_length(signal, self._preprocess.length)
        leading = (1,) * (len(self._spec.shape) - 1)
        array = signal.reshape(*leading, signal.size)
        return {self._spec.name: cast_to_input(self._spec, array, str(path))}
