"""Which options say how images become arrays, and how does a command take them all as one value?"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

if TYPE_CHECKING:
    import ptq.data.preprocess as values
    from ptq.data import Preprocess

PREPROCESSING_HELP = (
    "Images become arrays in this order: decode; channels; resize the shorter side to --resize "
    "pixels; crop the centre to --crop (or --size: resize to exactly H,W); multiply by --scale "
    "(default 1/255, pixels being 0 to 255); subtract --mean and divide by --std, both in scaled "
    "units; layout. What is not given is taken from the model's input, and reported. Where none of "
    "--scale, --mean and --std is given, colours for a float input are normalized by ImageNet's mean "
    "and standard deviation, unless the model's first nodes normalize; --mean 0 --std 1 is plain 0 to 1."
)

Size = Annotated[
    str | None,
    typer.Option("--size", metavar="H,W", help="Resize images to exactly that, in pixels."),
]
Resize = Annotated[
    int | None,
    typer.Option("--resize", metavar="N", help="Resize the shorter side to N pixels."),
]
Crop = Annotated[
    str | None, typer.Option("--crop", metavar="H,W", help="Crop the centre, in pixels.")
]
Scale = Annotated[
    float | None,
    typer.Option(
        "--scale", metavar="X", help="Multiply pixel values 0 to 255 by X; 1/255 by default."
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(
        "--mean", metavar="A,B,C", help="Subtract, in scaled units; one value or one a channel."
    ),
]
Std = Annotated[
    str | None,
    typer.Option(
        "--std", metavar="A,B,C", help="Divide by, in scaled units; one value or one a channel."
    ),
]
Layout = Annotated[
    str | None, typer.Option("--layout", metavar="NCHW|NHWC", help="Layout of the model's input.")
]
Channels = Annotated[
    str | None,
    typer.Option(
        "--channels", metavar="RGB|BGR|GRAY", help="Colours that the model's input takes."
    ),
]
Images = Annotated["Preprocess | None", "the options of `preprocess`, put together"]


def add_image_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the preprocessing options, in the place of its parameter ``images``."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(parse_preprocess, eval_str=True).parameters

    def with_options(**given: Any) -> None:
        images = parse_preprocess(**{name: given.pop(name) for name in options})
        command(**given, images=images)

    parameters = [p for name, p in own.parameters.items() if name != "images"]
    with_options.__signature__ = own.replace(parameters=[*parameters, *options.values()])  # type: ignore[attr-defined] # what typer reads
    with_options.__annotations__ = {}
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    return with_options


def parse_preprocess(
    *,
    size: Size = None,
    resize: Resize = None,
    crop: Crop = None,
    scale: Scale = None,
    mean: Mean = None,
    std: Std = None,
    layout: Layout = None,
    channels: Channels = None,
) -> Images:
    """The preprocessing options as one value; None where none is given.

    Raises:
        UsageError: One of them makes no sense.
    """
    from ptq.data import Preprocess

    given = Preprocess(
        size=_parse_size("--size", size),
        resize=resize,
        crop=_parse_size("--crop", crop),
        scale=scale,
        mean=_parse_numbers("--mean", mean),
        std=_parse_numbers("--std", std),
        layout=cast("values.Layout | None", layout),
        channels=cast("values.Channels | None", channels),
    )
    return None if given == Preprocess() else given


def _parse_size(option: str, text: str | None) -> tuple[int, int] | None:
    from ptq.core.errors import UsageError

    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"{option} {text} is not H,W in pixels; write {option} 224,224")
    return int(parts[0]), int(parts[1])


def _parse_numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    from ptq.core.errors import UsageError

    if text is None:
        return None
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"{option} {text} is not a list of numbers; write {option} 0.5 or {option} 0.4,0.5,0.6"
        ) from None
