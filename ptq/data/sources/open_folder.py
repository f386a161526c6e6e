"""Opening of a folder, or of a file of texts: which kind of samples it holds, and with which options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptq.core.errors import UsageError
from ptq.data.folder import FolderListing, Kind
from ptq.data.formats.audio import AudioFolder
from ptq.data.formats.images import ImageFolder
from ptq.data.formats.rows import NpzFolder
from ptq.data.formats.texts import TextFolder, TextLines
from ptq.data.input_spec import InputSpec
from ptq.data.preparation import Preparation
from ptq.data.preprocessing.audio_preprocess import AudioPreprocess
from ptq.data.preprocessing.preparation_kinds import PREPARATIONS, AnyPreparation
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.preprocessing.recorded_preprocess import RecordedPreprocess, complete_preprocess
from ptq.data.preprocessing.text_preprocess import TextPreprocess
from ptq.data.sample import SampleSource


def open_folder(
    listing: FolderListing,
    inputs: Sequence[InputSpec],
    preprocess: Preparation | None,
    recorded: RecordedPreprocess | None,
    *,
    required: bool,
) -> SampleSource:
    """Samples of a folder.

    Args:
        listing: The files of the folder.
        inputs: The model's inputs.
        preprocess: What the user gives, completed from the record; None if nothing is given.
        recorded: What an earlier run recorded.
        required: Refuse feeds, which the options do not apply to.

    Raises:
        DataError: There are no samples, or the model does not take them.
        UsageError: The options do not apply to them, or one is missing.
    """
    path = listing.root
    if listing.archives:
        if required and preprocess not in (None, Preprocess()):
            raise UsageError(
                f"{path}: preprocessing options apply only to images, audio and text; a folder of .npz holds feeds, "
                "which are fed unchanged"
            )
        return NpzFolder(listing, inputs)
    chosen = _choose_options(path, listing.kind, preprocess, recorded)
    if isinstance(chosen, AudioPreprocess):
        return AudioFolder(listing, inputs, chosen)
    if isinstance(chosen, TextPreprocess):
        return TextFolder(listing, inputs, chosen)
    return ImageFolder(listing, inputs, chosen)


def open_text_file(
    path: Path,
    inputs: Sequence[InputSpec],
    preprocess: Preparation | None,
    recorded: RecordedPreprocess | None,
) -> SampleSource:
    """The lines of a .txt file, with the arguments and errors of `open_folder`."""
    chosen = _choose_options(path, "text", preprocess, recorded)
    assert isinstance(chosen, TextPreprocess)
    return TextLines(path, inputs, chosen)


def _choose_options(
    path: Path, kind: Kind, given: Preparation | None, recorded: RecordedPreprocess | None
) -> AnyPreparation:
    """The options for a kind of samples: given, else recorded, else without any value.

    Raises:
        UsageError: Those given are for another kind, or none are there, and the kind needs one.
    """
    wanted = PREPARATIONS[kind]
    if given in (None, Preprocess()):
        known = complete_preprocess(None, recorded)
        if isinstance(known, wanted):
            return known
    elif not isinstance(given, wanted):
        assert given is not None
        raise UsageError(f"{path}: holds {kind}, and options for {given.SOURCE} do not apply to it")
    else:
        return given
    if wanted is AudioPreprocess:
        raise UsageError(
            f"{path}: audio needs the sample rate that the model was trained on; give it in Hz"
        )
    return TextPreprocess() if wanted is TextPreprocess else Preprocess()
