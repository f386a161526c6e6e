"""Preprocessing options by kind: for an image, a WAV file or a text."""

from __future__ import annotations

from collections.abc import Sequence

from ptq.core.errors import UsageError
from ptq.data.input_spec import InputSpec
from ptq.data.preparation import Preparation
from ptq.data.preprocessing.audio_preprocess import AudioPreprocess
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.preprocessing.text_preprocess import TextPreprocess

AnyPreparation = Preprocess | AudioPreprocess | TextPreprocess
PREPARATIONS: dict[str, type[AnyPreparation]] = {
    options.SOURCE: options for options in (Preprocess, AudioPreprocess, TextPreprocess)
}
"""The options by the kind of samples that they prepare."""


def resolve_preparation(options: AnyPreparation, inputs: Sequence[InputSpec]) -> Preparation:
    """The same options, completed from the model's inputs.

    Raises:
        UsageError: The inputs do not take such samples.
    """
    if isinstance(options, TextPreprocess):
        return options.resolved(inputs)
    if len(inputs) != 1:
        subject = "images feed" if isinstance(options, Preprocess) else "audio feeds"
        raise UsageError(f"{subject} one input, but the model has {len(inputs)}")
    return options.resolved(inputs[0])


def require_images(options: Preparation | None, where: str) -> Preprocess | None:
    """The options if they are for images, or none; others do not apply to arrays and objects.

    Args:
        options: What the user gives.
        where: Name of the data in the error.

    Raises:
        UsageError: They are for audio or for text.
    """
    if options is None or isinstance(options, Preprocess):
        return options
    takes = (
        "a folder of WAV files"
        if isinstance(options, AudioPreprocess)
        else "a .txt file or a folder of them"
    )
    raise UsageError(f"{where}: options for {options.SOURCE} apply only to {takes}")
