"""Keys of Hugging Face's ``preprocessor_config.json``.

Source: transformers, image_processing_backends.py, PilBackend._preprocess. The steps are: resize, crop the center,
rescale, normalize. Only processors without steps of their own are accepted, and ConvNext's crop_pct.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptq.data.preprocessing.processor_config.entries import Entries, Options

_SUFFIXES = ("ImageProcessorFast", "ImageProcessorPil", "ImageProcessor", "FeatureExtractor")
_SQUARE = frozenset(["Beit", "DeiT", "Pvt", "Segformer", "Siglip", "ViT"])
"""Processors of the standard steps; a size of one number is a square."""
_SHORTEST_EDGE = frozenset(
    ["Bit", "CLIP", "ChineseCLIP", "ConvNext", "MobileNetV1", "MobileNetV2", "MobileViT"]
)
"""Processors of the standard steps; a size of one number is the shortest edge."""
_OTHERS = frozenset(["", "Blip"])
"""Further processors of the standard steps; a size of one number is ambiguous."""

_CROPPED = frozenset(
    ["Bit", "CLIP", "ChineseCLIP", "DeiT", "MobileNetV1", "MobileNetV2", "MobileViT"]
)
"""Processors that crop unless the configuration says otherwise."""
_FLIPPED = frozenset(["MobileViT"])
"""Processors that flip channels, and do not normalize, unless the configuration says otherwise."""

_STEPS = frozenset(
    """
    do_resize size resample do_center_crop crop_size do_rescale rescale_factor do_normalize image_mean
    image_std do_flip_channel_order crop_pct image_processor_type feature_extractor_type
    """.split()  # noqa: SIM905 # easier to read and to extend
)
_WITHOUT_EFFECT = frozenset(
    """
    do_convert_rgb default_to_square data_format input_data_format return_tensors device
    disable_grouping processor_class auto_map model_input_names do_reduce_labels reduce_labels
    size_divisor backend
    """.split()  # noqa: SIM905 # easier to read and to extend
)
"""Keys that do not change the pixels of one image. size_divisor belongs to do_pad, which is refused."""

_RESAMPLE = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")
"""Pillow's numbers of its filters."""
_CONVNEXT_SQUASH = 384
"""Shortest edge from which ConvNext squashes images instead of cropping them."""


def read_options(values: Mapping[str, Any], where: str) -> Options:
    """Options of `ptq.data.Preprocess` from a ``preprocessor_config.json``.

    Raises:
        UsageError: The processor or a key is unknown, or a value is of the wrong type.
    """
    entries = Entries(values, where)
    kind = _read_kind(entries)
    entries.refuse_unknown(_STEPS | _WITHOUT_EFFECT)
    _require_steps(entries, kind)
    options = _read_geometry(entries, kind)
    if "resize" in options or "size" in options:
        options["interpolation"] = _read_interpolation(entries)
    if "crop" in options:
        options["crop_rounding"] = "down"
    rescaled = entries.read_flag("do_rescale", default=True)
    options["scale"] = entries.read_number("rescale_factor", 1 / 255) if rescaled else 1.0
    options["mean"], options["std"] = (0.0,), (1.0,)
    if entries.read_flag("do_normalize", default=entries.get("image_mean") is not None):
        for option, key in (("mean", "image_mean"), ("std", "image_std")):
            found = entries.read_channels(key)
            if found is None:
                raise entries.refuse(key, "is missing, though do_normalize is true")
            options[option] = found
    if entries.read_flag("do_flip_channel_order", default=False):
        options["channels"] = "BGR"
    return options


def _read_kind(entries: Entries) -> str:
    key = "image_processor_type"
    if entries.get(key) is None and entries.get("feature_extractor_type") is not None:
        key = "feature_extractor_type"
    name = entries.get(key) or ""
    kind = str(name)
    for suffix in _SUFFIXES:
        kind = kind.removesuffix(suffix)
    if kind not in _SQUARE | _SHORTEST_EDGE | _OTHERS or (name and kind == name):
        raise entries.refuse(key, "has steps of its own, which ptq does not know")
    return kind


def _require_steps(entries: Entries, kind: str) -> None:
    """Refuse a configuration that leaves a step to the class of its processor.

    Raises:
        UsageError: A step is missing.
    """
    if kind:
        entries.require_one("do_resize", "size")
    if kind in _CROPPED:
        entries.require_one("do_center_crop", "crop_size")
    if kind in _FLIPPED:
        entries.require_one("do_flip_channel_order", "do_flip_channel_order")
    elif kind:
        entries.require_one("do_normalize", "image_mean")


def _read_geometry(entries: Entries, kind: str) -> Options:
    options: Options = {}
    if entries.read_flag("do_resize", default=entries.get("size") is not None):
        options = _read_size(entries, kind)
    crops = entries.read_flag("do_center_crop", default=entries.get("crop_size") is not None)
    if not crops:
        return options
    crop = _read_pair(entries, "crop_size")
    if "size" in options:
        if options["size"] != crop:
            raise entries.refuse("crop_size", "follows a resize to exact height and width")
        return options
    if options.get("crop", crop) != crop:
        raise entries.refuse("crop_size", "differs from the crop that crop_pct implies")
    return {**options, "crop": crop}


def _read_size(entries: Entries, kind: str) -> Options:
    size = entries.get("size")
    if isinstance(size, int) and not isinstance(size, bool):
        if kind in _OTHERS:
            raise entries.refuse(
                "size", 'is ambiguous: write {"shortest_edge": N} or {"height": N, "width": N}'
            )
        size = (
            {"shortest_edge": size} if kind in _SHORTEST_EDGE else {"height": size, "width": size}
        )
    if isinstance(size, Mapping):
        size = {key: value for key, value in size.items() if value is not None}
        if set(size) == {"height", "width"}:
            pair = size["height"], size["width"]
            if all(_is_length(value) for value in pair):
                return {"size": pair}
        if set(size) == {"shortest_edge"} and _is_length(size["shortest_edge"]):
            shortest = size["shortest_edge"]
            return _read_convnext(entries, shortest) if kind == "ConvNext" else {"resize": shortest}
    raise entries.refuse("size", "is not a shortest_edge, or a height and a width")


def _read_convnext(entries: Entries, shortest: int) -> Options:
    """ConvNext's resize: the shorter side to size / crop_pct, then a square crop; from 384 on, squashed."""
    if shortest >= _CONVNEXT_SQUASH:
        return {"size": (shortest, shortest)}
    crop_pct = entries.read_number("crop_pct", 224 / 256)
    return {"resize": int(shortest / crop_pct), "crop": (shortest, shortest)}


def _read_pair(entries: Entries, key: str) -> tuple[int, int]:
    value = entries.get(key)
    if _is_length(value):
        return value, value
    if isinstance(value, Mapping) and all(_is_length(value.get(k)) for k in ("height", "width")):
        return value["height"], value["width"]
    raise entries.refuse(key, "is not a height and a width")


def _read_interpolation(entries: Entries) -> str:
    code = entries.get("resample")
    if code is None:
        raise entries.refuse("resample", "is missing, though do_resize is true")
    if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code < len(_RESAMPLE):
        raise entries.refuse("resample", "is not one of Pillow's filters, 0 to 5")
    return _RESAMPLE[code]


def _is_length(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
