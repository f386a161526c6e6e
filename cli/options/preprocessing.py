"""Preprocessing options for images, audio and text, passed to a command as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from .parsers import parse_count, parse_scale

if TYPE_CHECKING:
    import ptq.data.preprocessing.preprocess as values
    from ptq.data import Preparation

PREPROCESSING_HELP = (
    "Images become arrays in this order: decode; convert channels; resize the shorter side to --resize "
    "pixels; crop the centre to --crop; multiply by --scale; subtract --mean; divide by --std; set the "
    "layout. --size replaces --resize and --crop and resizes to exactly H,W; with --letterbox the aspect ratio is "
    "kept. Pixels are 0 to 255, and the default "
    "--scale is 1/255. --mean and --std are in scaled units. Missing values are taken from what the "
    "model, the statistics or the plan record of an earlier run, else from the model's input, and reported. "
    "Without --scale, --mean and --std, colour images for a float input are normalized by "
    "ImageNet's mean and standard deviation. If the model's first nodes normalize, images keep the "
    "range that these nodes expect. --mean 0 --std 1 gives plain 0 to 1. "
    "WAV files need --sample-rate: the channels are mixed, the signal is resampled, and values are -1 to 1. "
    "Texts need --tokenizer. Both are cut or padded to a fixed length of the model's inputs."
)

Size = Annotated[
    str | None,
    typer.Option("--size", metavar="H,W", help="Resize images to exactly H,W pixels."),
]
Resize = Annotated[
    int | None,
    typer.Option(
        "--resize",
        metavar="N",
        parser=parse_count("resize", least=1),
        help="Resize the shorter side to N pixels.",
    ),
]
Crop = Annotated[
    str | None, typer.Option("--crop", metavar="H,W", help="Crop the centre to H,W pixels.")
]
Letterbox = Annotated[
    int | None,
    typer.Option(
        "--letterbox",
        metavar="GRAY",
        parser=parse_count("letterbox", most=255),
        help="Fit images into the size with their aspect ratio kept, on borders of this gray level "
        "(114 for YOLO). Ultralytics models record it.",
    ),
]
Scale = Annotated[
    float | None,
    typer.Option(
        "--scale",
        metavar="X",
        parser=parse_scale,
        help="Multiply pixel values (0 to 255) by X; by default 1/255.",
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(
        "--mean",
        metavar="A,B,C",
        help="Subtract, in scaled units; one value, or one for each channel.",
    ),
]
Std = Annotated[
    str | None,
    typer.Option(
        "--std",
        metavar="A,B,C",
        help="Divide by, in scaled units; one value, or one for each channel.",
    ),
]
Layout = Annotated[
    str | None, typer.Option("--layout", metavar="NCHW|NHWC", help="Layout of the model's input.")
]
Channels = Annotated[
    str | None,
    typer.Option("--channels", metavar="RGB|BGR|GRAY", help="Channels of the model's input."),
]
Interpolation = Annotated[
    str | None,
    typer.Option(
        "--interpolation",
        metavar="NAME",
        help="Filter for resizing: nearest, bilinear (default), bicubic, lanczos, box or hamming, as in Pillow.",
    ),
]
CropRounding = Annotated[
    str | None,
    typer.Option(
        "--crop-rounding",
        metavar="even|down",
        help="Rounding of half an odd surplus when cropping: even (default), as torchvision and timm do, or down, as "
        "transformers does.",
    ),
]
Processor = Annotated[
    Path | None,
    typer.Option(
        "--preprocess",
        metavar="FILE.json",
        help="Take the options from a preprocessor_config.json (Hugging Face) or a config.json (timm). "
        "Options that are given too replace those of the file.",
    ),
]
SampleRate = Annotated[
    int | None,
    typer.Option(
        "--sample-rate",
        metavar="HZ",
        parser=parse_count("sample_rate"),
        help="Sample rate of the model; WAV files of another rate are resampled.",
    ),
]
Tokenizer = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer",
        metavar="FILE.json",
        help="The model's tokenizer.json, for texts (needs the package tokenizers).",
    ),
]
Images = Annotated["Preparation | None", "all preprocessing options as one value"]


def add_image_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter ``images`` of a command by the preprocessing options."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(parse_preprocess, eval_str=True).parameters

    def with_options(**arguments: Any) -> None:
        images = parse_preprocess(**{name: arguments.pop(name) for name in options})
        command(**arguments, images=images)

    parameters = [p for name, p in own.parameters.items() if name != "images"]
    with_options.__signature__ = own.replace(parameters=[*parameters, *options.values()])  # type: ignore[attr-defined] # typer reads it
    with_options.__annotations__ = {}
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    return with_options


def parse_preprocess(
    *,
    size: Size = None,
    resize: Resize = None,
    crop: Crop = None,
    letterbox: Letterbox = None,
    scale: Scale = None,
    mean: Mean = None,
    std: Std = None,
    layout: Layout = None,
    channels: Channels = None,
    interpolation: Interpolation = None,
    crop_rounding: CropRounding = None,
    preprocess: Processor = None,
    sample_rate: SampleRate = None,
    tokenizer: Tokenizer = None,
) -> Images:
    """The preprocessing options as one value; None if none is given.

    Raises:
        UsageError: An option is invalid.
    """
    from ptq.core.errors import UsageError
    from ptq.data import AudioPreprocess, Preprocess, TextPreprocess

    given = Preprocess(
        size=_parse_size("--size", size),
        resize=resize,
        crop=_parse_size("--crop", crop),
        letterbox=letterbox,
        scale=scale,
        mean=_parse_numbers("--mean", mean),
        std=_parse_numbers("--std", std),
        layout=cast("values.Layout | None", layout),
        channels=cast("values.Channels | None", channels),
        interpolation=cast("values.Interpolation | None", interpolation),
        crop_rounding=cast("values.CropRounding | None", crop_rounding),
    )
    chosen: list[Preparation] = []
    if preprocess is not None:
        chosen.append(Preprocess.from_config(preprocess).override(given))
    elif given != Preprocess():
        chosen.append(given)
    if sample_rate is not None:
        chosen.append(AudioPreprocess(sample_rate))
    if tokenizer is not None:
        chosen.append(TextPreprocess(tokenizer))
    if len(chosen) > 1:
        kinds = " and ".join(options.SOURCE for options in chosen)
        raise UsageError(f"options for {kinds} are given; give those of one kind of samples")
    return chosen[0] if chosen else None


def _parse_size(option: str, text: str | None) -> tuple[int, int] | None:
    from ptq.core.errors import UsageError

    if text is None:
        return None
    numbers = text.split(",")
    if len(numbers) != 2 or not all(number.strip().isdecimal() for number in numbers):
        raise UsageError(f"{option} {text} is not H,W in pixels; write {option} 224,224")
    return int(numbers[0]), int(numbers[1])


def _parse_numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    from ptq.core.errors import UsageError

    if text is None:
        return None
    advice = f"write {option} 0.5 or {option} 0.4,0.5,0.6"
    try:
        numbers = tuple(float(number) for number in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text} is not a list of numbers; {advice}") from None
    if len(numbers) not in (1, 3):
        raise UsageError(
            f"{option} {text} has {len(numbers)} values; {advice} (the decimal sign is a point)"
        )
    return numbers
