"""Preprocessing options from image to array, completed from the model's input.

    decode → channels → resize the shorter side → crop the center (or size: exactly H, W)
           → x · scale (1/255) → (x − mean) / std, in scaled units → layout

The model's input determines options that are not given. Its fixed height and width are the size. Its channel axis
gives the layout, and shows whether the images are color or gray.

The input does not determine the range of values. If the model's first nodes do not either, color images get
ImageNet's mean and standard deviation, as networks of torchvision and timm expect. The risk is one-sided. Ranges that
are too narrow clip: EfficientNet-Lite0, calibrated on 0 … 1 and run on normalized images, loses 18 dB. Ranges up to 5
times too wide only cost resolution: 4 to 5 dB for that network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal, get_args

from ptq.core.errors import UsageError
from ptq.core.option_checks import (
    list_values,
    refuse_unknown_fields,
    require_choice,
    require_count,
    require_number,
    require_size,
)
from ptq.core.wording import OPEN_BATCH
from ptq.data.input_spec import InputSpec
from ptq.data.preprocessing.channel_values import ChannelValues
from ptq.data.preprocessing.processor_config.read import read_processor_config

Layout = Literal["NCHW", "NHWC"]
Channels = Literal["RGB", "BGR", "GRAY"]
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]
CropRounding = Literal["even", "down"]

ORDER_OF_APPLICATION = (
    *("channels", "resize", "crop", "size", "letterbox", "interpolation", "crop_rounding"),
    *("scale", "mean", "std", "layout"),
)
"""The names of the options, in the order in which they are applied."""
DEFAULT_INTERPOLATION: Interpolation = "bilinear"
IMAGENET_MEAN_STD = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and standard deviation of ImageNet's red, green and blue, in 0 … 1."""
_NOT_GIVEN: Any = None
MAX_SCALED_MEAN = 1.0
"""No mean of values of 0 … 1 is larger."""
MAX_SCALED_STD = 2.0
"""The standard deviation of values of 0 … 1 is at most 0.5, and a divisor of 1 or 2 may be meant."""


@refuse_unknown_fields
@dataclass(frozen=True)
class Preprocess:
    """Options from image to array. The model's input determines each option that is None.

    Attributes:
        size: Height and width to resize to exactly; excludes resize and crop.
        resize: Length of the shorter side after resizing. The longer side keeps the aspect ratio, rounded down.
        crop: Height and width to cut from the center.
        letterbox: Gray level, 0 to 255, of the borders beside an image that is resized to fit into ``size`` with its
            aspect ratio kept, as detectors are trained (114 in YOLO); None to resize to exactly ``size``.
        scale: Factor on the pixel values 0 … 255; 1/255 for a float input, 1 for uint8.
        mean: Subtracted after scaling: one value, or one for each channel in the order of ``channels``. If scale,
            mean and std are all None: ImageNet's mean for color images, and no mean for gray images or if the
            model normalizes itself.
        std: Divisor after the subtraction, with the same rules.
        layout: Layout of the model's input; an input of three dimensions has no N.
        channels: Order of the colors, or gray by ITU-R 601.
        interpolation: Pillow's filter for resizing, with antialiasing when the image shrinks; bilinear if None.
        crop_rounding: Rounding of half of an odd surplus when cropping: ``even``, to the nearest even number as in
            torchvision and timm, or ``down``, as in transformers; ``even`` if None.
        assumed: A sentence that says what `resolved` assumed for scale, mean and std.
    """

    SOURCE: ClassVar[str] = "images"
    ORDER: ClassVar[tuple[str, ...]] = ORDER_OF_APPLICATION

    size: tuple[int, int] | None = None
    resize: int | None = None
    crop: tuple[int, int] | None = None
    letterbox: int | None = None
    scale: float | None = None
    mean: ChannelValues = _NOT_GIVEN
    std: ChannelValues = _NOT_GIVEN
    layout: Layout | None = None
    channels: Channels | None = None
    interpolation: Interpolation | None = None
    crop_rounding: CropRounding | None = None
    assumed: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        checks: dict[str, Callable[[str, Any], object]] = {
            "size": require_size, "crop": require_size, "resize": partial(require_count, least=1),
            "letterbox": partial(require_count, most=255), "scale": require_number,
            "mean": _as_numbers, "std": _as_numbers,
        }  # fmt: skip
        for option, check in checks.items():
            if (value := getattr(self, option)) is not None:
                object.__setattr__(self, option, check(option, value))
        if self.size is not None and (self.resize is not None or self.crop is not None):
            raise UsageError("`size` excludes `resize` and `crop`; give either it or them")
        if self.letterbox is not None and (self.resize is not None or self.crop is not None):
            raise UsageError("`letterbox` fits images into `size`; remove `resize` and `crop`")
        if self.scale == 0:
            raise UsageError("scale 0 is not a finite number other than 0", "scale")
        if self.std is not None and min(self.std) <= 0:
            listed = ", ".join(f"{value:g}" for value in self.std)
            raise UsageError(f"std {listed} is not positive", "std")
        _require_one_of("layout", self.layout, get_args(Layout))
        _require_one_of("channels", self.channels, get_args(Channels))
        _require_one_of("interpolation", self.interpolation, get_args(Interpolation))
        _require_one_of("crop_rounding", self.crop_rounding, get_args(CropRounding))

    @classmethod
    def from_config(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Any) -> Preprocess:
        """Options from the configuration of an image processor.

        Args:
            source: Hugging Face's ``preprocessor_config.json`` or timm's ``config.json``, as a path or a dict. Also
                an image processor of transformers itself.

        Raises:
            UsageError: The file cannot be read, or a key that changes pixels is unknown.
        """
        return cls(**read_processor_config(source))

    def override(self, given: Preprocess) -> Preprocess:
        """These options, with each option of ``given`` that is not None in place of the own one.

        A given size or letterbox replaces resize and crop too, and the reverse.
        """
        replaced = {f.name: getattr(given, f.name) for f in fields(given) if f.name != "assumed"}
        replaced = {name: value for name, value in replaced.items() if value is not None}
        if "size" in replaced or "letterbox" in replaced:
            replaced = {"resize": None, "crop": None, **replaced}
        elif "resize" in replaced or "crop" in replaced:
            replaced = {"size": None, "letterbox": None, **replaced}
        return replace(self, **replaced)

    def resolved(self, spec: InputSpec) -> Preprocess:
        """The same options, completed from the model's input.

        If height and width of the input are dynamic, size and crop stay None. Each image then keeps its size.

        Raises:
            UsageError: An option contradicts the input, or the input does not take images.
        """
        if spec.dtype.kind != "f" and spec.dtype.name != "uint8":
            raise UsageError(f"input {spec.name!r} takes {spec}; images feed float or uint8 inputs")
        if len(spec.shape) not in (3, 4):
            raise UsageError(
                f"input {spec.name!r} takes {spec}; images feed 3 or 4 dimensions: give arrays"
            )
        if len(spec.shape) == 4 and spec.shape[0] not in (1, None):
            raise UsageError(
                f"input {spec.name!r} takes {spec}, {spec.shape[0]} images at once, because its batch is fixed; "
                f"{OPEN_BATCH}, or give a folder of .npz"
            )
        layout = self.layout or _guess_layout(spec)
        depth, height, width = _get_image_dimensions(spec, layout)
        if self.channels is not None:
            channels = self.channels
        elif depth is None and len(spec.shape) == 4:
            channels = "RGB"
        else:
            channels = "GRAY" if depth in (1, None) else "RGB"
        count = 1 if channels == "GRAY" else 3
        if depth is not None and depth != count:
            raise UsageError(
                f"input {spec.name!r} takes {spec}: {depth} channels in layout {layout}, "
                f"and {channels} images have {count}; give another `channels` or `layout`, or arrays"
            )
        for option, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and len(values) not in (1, count):
                takes = "1" if count == 1 else f"1 or {count}"
                raise UsageError(
                    f"{option} has {len(values)} values; {channels} takes {takes}", option
                )
        filled = replace(self, layout=layout, channels=channels)
        found = filled._with_range(spec)._with_geometry(spec, height, width)
        if found.letterbox is not None and found.size is None:
            raise UsageError(f"letterbox needs a size, because input {spec.name!r} takes any")
        if found.size is None and found.resize is None:
            return found
        return replace(found, interpolation=found.interpolation or DEFAULT_INTERPOLATION)

    def describe(self) -> dict[str, Any]:
        """Options in the order of application, as plain values for a report."""
        options = {f.name: getattr(self, f.name) for f in fields(self)}
        return {
            k: list(options[k]) if isinstance(options[k], tuple) else options[k]
            for k in ORDER_OF_APPLICATION
            if options[k] is not None
        }

    def _with_range(self, spec: InputSpec) -> Preprocess:
        if spec.dtype.kind == "f":
            if (self.scale, self.mean, self.std) == (None, None, None):
                return self._with_assumed_range(spec)
            if self.scale is None:
                self._refuse_pixel_units()
                return replace(self, scale=1 / 255)
            return self
        if self.scale not in (None, 1) or self.mean is not None or self.std is not None:
            raise UsageError(
                f"input {spec.name!r} takes unscaled uint8 pixels; remove `scale`, `mean` and `std`"
            )
        return replace(self, scale=1.0)

    def _refuse_pixel_units(self) -> None:
        """Refuse a mean or std of pixels of 0 … 255 beside the default scale, which gives 0 … 1."""
        limits = (("mean", self.mean, MAX_SCALED_MEAN), ("std", self.std, MAX_SCALED_STD))
        for option, values, limit in limits:
            for value in values or ():
                if abs(value) > limit:
                    raise UsageError(
                        f"{option} {value:g} looks like a value for pixels of 0 … 255, but they are scaled to "
                        "0 … 1 first; set `scale` to 1, or divide `mean` and `std` by 255. "
                        f"A scale of {1 / 255:.10f} keeps these values"
                    )

    def _with_assumed_range(self, spec: InputSpec) -> Preprocess:
        if spec.pixel_scale is not None:
            assumed = (
                f"the model is assumed to normalize values of 0 … {255 * spec.pixel_scale:g} itself"
            )
            return replace(self, scale=spec.pixel_scale, assumed=assumed)
        if self.channels == "GRAY":
            assumed = "gray values of 0 … 1 are assumed, because no scale, mean and std are given"
            return replace(self, scale=1 / 255, assumed=assumed)
        mean, std = (v[::-1] if self.channels == "BGR" else v for v in IMAGENET_MEAN_STD)
        assumed = "ImageNet's mean and standard deviation are assumed, because no values are given"
        return replace(self, scale=1 / 255, mean=mean, std=std, assumed=assumed)

    def _with_geometry(self, spec: InputSpec, height: int | None, width: int | None) -> Preprocess:
        final = self.size or self.crop
        if final is not None:
            if any(
                want is not None and want != got
                for want, got in zip((height, width), final, strict=True)
            ):
                option = "size" if self.size else "crop"
                raise UsageError(
                    f"{option} {final[0]},{final[1]} does not fit input {spec.name!r}, "
                    f"which takes {spec} in layout {self.layout}"
                )
            return self
        if height is None and width is None:
            return self
        if height is None or width is None:
            raise UsageError(
                f"input {spec.name!r} takes {spec}, one side dynamic; give `size` (height, width)"
            )
        if self.resize is None:
            return replace(self, size=(height, width))
        if self.resize < min(height, width):
            raise UsageError(
                f"resize {self.resize} gives images smaller than {height}×{width}, "
                f"the size of input {spec.name!r}"
            )
        return replace(self, crop=(height, width))


def _get_image_dimensions(
    spec: InputSpec, layout: Layout
) -> tuple[int | None, int | None, int | None]:
    """Channels, height and width of an image input; None for a dynamic one."""
    a, b, c = spec.shape[-3:]
    return (a, b, c) if layout == "NCHW" else (c, a, b)


def _guess_layout(spec: InputSpec) -> Layout:
    # The channel axis has length 1 or 3. If both ends or neither fit, PyTorch's layout is assumed.
    first, last = spec.shape[-3], spec.shape[-1]
    return "NHWC" if last in (1, 3) and first not in (1, 3) else "NCHW"


def _as_numbers(option: str, values: object) -> tuple[float, ...]:
    """One number, or one for each channel, as a tuple."""
    listed = list_values(values)
    numbers = tuple(require_number(option, v) for v in ((values,) if listed is None else listed))
    if len(numbers) not in (1, 3):
        raise UsageError(f"{option} has {len(numbers)} values; give 1 or 3", option)
    return numbers


def _require_one_of(option: str, value: str | None, allowed: Sequence[str]) -> None:
    if value is not None:
        require_choice(option, value, allowed)
