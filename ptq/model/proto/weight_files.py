"""Weights in other files than the model's: where they lie, and reading them.

As in ONNX Runtime, the model and its weights may be symbolic links, as in the cache of Hugging Face. A weight file
must lie in the folder of the model, or in that of the file that the model's path is a link to. A hard link is
refused: it can name a file that lies anywhere, and does not show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

import onnx

from ptq.core.errors import ModelError


@dataclass(frozen=True)
class WeightPlace:
    """Where a tensor's data lie.

    Attributes:
        path: The file, without links.
        offset: Bytes before the data.
        length: Bytes of the data.
    """

    path: Path
    offset: int
    length: int


def find_weight_file(model: Path, location: str) -> Path:
    """The file, without links, that a model's weights name as their location.

    A name is first looked up beside the model's path, then, if that is a link, beside its target.

    Args:
        model: Path of the model.
        location: The location in the model.

    Raises:
        ModelError: The file does not exist, is not a regular file, has a second name, or lies outside of the model's
            folder.
    """
    advice = "put it beside the model, and name it by a relative path"
    if Path(location).is_absolute() or PureWindowsPath(location).is_absolute():
        raise ModelError(
            f"model {model}: its weight file {location} has an absolute path; {advice}"
        )
    try:
        folders = {model.parent.resolve(): None, model.resolve().parent: None}
        files = [(folder / location).resolve() for folder in folders]
        found = next((file for file in files if file.exists()), files[0])
        if not any(found.is_relative_to(folder) for folder in folders):
            raise ModelError(
                f"model {model}: its weight file {location} lies outside of the model's folder, at {found}; {advice}"
            )
        if not found.exists():
            raise ModelError(f"model {model}: its weight file {location} does not exist; {advice}")
        if not found.is_file():
            raise ModelError(
                f"model {model}: its weight file {location or '(no name)'} is not a regular file; {advice}"
            )
        if found.stat().st_nlink > 1:
            raise ModelError(
                f"model {model}: its weight file {location} has a second name (hard link), perhaps elsewhere; copy it"
            )
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a null byte
        reason = getattr(error, "strerror", None) or error
        raise ModelError(
            f"model {model}: its weight file {location!r} cannot be read: {reason}; {advice}"
        ) from error
    return found


def find_weights(tensor: onnx.TensorProto, model: Path, size: int) -> WeightPlace:
    """Where the data of a tensor lie that are in another file.

    Args:
        tensor: The tensor.
        model: Path of the model.
        size: Bytes of the data, if the tensor names no length.

    Raises:
        ModelError: See `find_weight_file`; or the file is too short, or an entry is no number.
        OSError: The file cannot be read.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    path = find_weight_file(model, entries.get("location", ""))
    try:
        offset = int(entries.get("offset", 0))
        length = int(entries.get("length", size))
    except ValueError:
        raise ModelError(
            f"model {model}: offset or length of the weights {tensor.name} is no number; export the model again"
        ) from None
    available = path.stat().st_size
    if min(offset, length) < 0 or offset + length > available:
        raise ModelError(
            f"model {model}: the weights {tensor.name} need {length} bytes from byte {offset} of {path.name}, which "
            f"has {available}; copy or export the model again"
        )
    return WeightPlace(path, offset, length)


def load_weights(tensor: onnx.TensorProto, model: Path, size: int) -> None:
    """Read a tensor's data from their file into its message, in place. Arguments: see `find_weights`.

    Raises:
        ModelError, OSError: See `find_weights`.
    """
    place = find_weights(tensor, model, size)
    with place.path.open("rb") as file:
        file.seek(place.offset)
        tensor.raw_data = file.read(place.length)
    tensor.ClearField("data_location")
    del tensor.external_data[:]
