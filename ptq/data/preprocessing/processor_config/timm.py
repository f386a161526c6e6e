"""Keys of timm's ``pretrained_cfg``.

Source: timm, data/config.py, resolve_data_config, and data/transforms_factory.py, transforms_imagenet_eval. The
shorter side is resized to floor(input size / crop_pct), and the center is cropped. Pixels are scaled to 0 … 1 and
normalized.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ptq.data.preprocessing.processor_config.entries import Entries, Options

_STEPS = frozenset(["input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std"])
_WITHOUT_EFFECT = frozenset(
    """
    url file state_dict hf_hub_id hf_hub_filename source architecture tag custom_load
    test_input_size min_input_size fixed_input_size test_crop_pct num_classes label_offset
    label_names label_descriptions pool_size test_pool_size first_conv classifier license
    description origin_url paper_name paper_ids notes
    """.split()  # noqa: SIM905 # easier to read and to extend
)
"""Keys that do not change pixels. The test_ keys are for another resolution, on request."""

_FILTERS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")


def is_timm(values: Mapping[str, Any]) -> bool:
    """Whether the keys are those of timm."""
    return "input_size" in values or {"crop_pct", "mean"} <= set(values)


def read_options(values: Mapping[str, Any], where: str) -> Options:
    """Options of `ptq.data.Preprocess` from a ``pretrained_cfg`` or the result of ``resolve_data_config``.

    Raises:
        UsageError: A key is unknown, or a value is of the wrong type.
    """
    entries = Entries(values, where)
    entries.refuse_unknown(_STEPS | _WITHOUT_EFFECT)
    depth, height, width = _read_input_size(entries)
    options: Options = {
        "channels": "GRAY" if depth == 1 else "RGB",
        "interpolation": entries.get("interpolation") or "bicubic",
        "scale": 1 / 255,
        "mean": entries.read_channels("mean") or (0.485, 0.456, 0.406),
        "std": entries.read_channels("std") or (0.229, 0.224, 0.225),
    }
    if options["interpolation"] not in _FILTERS:
        raise entries.refuse("interpolation", "is not one of Pillow's filters")
    crop_pct = entries.read_number("crop_pct", 0.875)
    scaled = math.floor(height / crop_pct), math.floor(width / crop_pct)
    mode = entries.get("crop_mode") or "center"
    if mode == "squash" and scaled == (height, width):
        return {**options, "size": (height, width)}
    if mode != "center":
        raise entries.refuse("crop_mode", f"with crop_pct {crop_pct:g} is not supported")
    if scaled[0] != scaled[1]:
        raise entries.refuse("input_size", "is not square; timm then resizes by rules of its own")
    if crop_pct > 1:
        raise entries.refuse("crop_pct", "is greater than 1; timm then pads images")
    return {**options, "resize": scaled[0], "crop": (height, width)}


def _read_input_size(entries: Entries) -> tuple[int, int, int]:
    size = entries.get("input_size")
    size = (3, 224, 224) if size is None else size
    if (
        isinstance(size, (list, tuple))
        and len(size) == 3
        and all(isinstance(side, int) and side > 0 for side in size)
        and size[0] in (1, 3)
    ):
        return size[0], size[1], size[2]
    raise entries.refuse("input_size", "is not channels (1 or 3), height and width")
