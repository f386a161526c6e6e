"""Which options do several commands share, and what do they say of themselves?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# The names in the tables of ptq, which a test holds them to: importing those takes a second.
METHODS = "auto, minmax, percentile, kl or mse"
TARGETS = "ort, litert, tpu-mlir, gemmlowp or tensorrt"
ARITHMETICS = "ort, ort-avx2, litert, tflite-micro, gemmlowp, tpu-mlir, tpu-mlir-8 or fixed-point"

SAMPLES_HELP = (
    "Samples: a folder of images (class sub-folders are labels), an .npz (arrays by input name and "
    "optional 'labels', leading axis = samples), a folder of .npz (one whole feed each), an .npy for "
    "a single input, or module:callable."
)
PREPROCESSING = (
    "Images become arrays in this order: decode; channels; resize the shorter side to --resize "
    "pixels; crop the centre to --crop (or --size: resize to exactly H,W); multiply by --scale "
    "(default 1/255, pixels being 0 to 255); subtract --mean and divide by --std, both in scaled "
    "units; layout. What is not given is taken from the model's input, and reported. Where none of "
    "--scale, --mean and --std is given, colours for a float input are normalized by ImageNet's mean "
    "and standard deviation, unless the model's first nodes normalize; --mean 0 --std 1 is plain 0 to 1."
)

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The float model, an .onnx file.")]
Quantized = Annotated[
    Path, typer.Argument(metavar="QUANTIZED", help="A quantized model, an .onnx file.")
]
AnyModel = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A float or quantized model, an .onnx file.")
]
Data = Annotated[str, typer.Option("--data", metavar="PATH", help=SAMPLES_HELP)]
OptionalData = Annotated[str | None, typer.Option("--data", metavar="PATH", help=SAMPLES_HELP)]
Target = Annotated[
    str, typer.Option("--target", metavar="NAME", help=f"The runtime to quantize for: {TARGETS}.")
]
Arithmetic = Annotated[
    str,
    typer.Option(
        "--arithmetic", metavar="NAME", help=f"What the integers are computed in: {ARITHMETICS}."
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip", metavar="NODE", help="Leave a node, or every node of an operator, float; repeat."
    ),
]
SampleCount = Annotated[
    int | None,
    typer.Option(
        "--samples", metavar="N", min=1, help="Use N samples of --data, spread evenly over it."
    ),
]
Batch = Annotated[
    int,
    typer.Option(
        "--batch",
        metavar="N",
        min=1,
        help="Samples that run at once when accuracy is measured, if the model takes any number.",
    ),
]
Threads = Annotated[
    int,
    typer.Option("--threads", metavar="N", min=0, help="Threads in ONNX Runtime; 0 is one a core."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Save the state of the calibration there every few seconds; the same command, run again "
        "after an interruption, goes on from it and makes the same bytes.",
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad-samples",
        help="Leave bad samples out, and list them, instead of stopping at the first.",
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE|-", help="Write the result as JSON; - is standard output."
    ),
]
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
MaxDrop = Annotated[
    float | None,
    typer.Option(
        "--max-drop",
        metavar="PCT",
        min=0,
        help="The budget: points that may be lost against float, of top-1 accuracy where samples are "
        "labelled, else of agreement with float, else percent of the output's energy that are error. "
        "The exit code is 3 where more are lost, beyond the noise of the samples.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="MODULE:CALLABLE",
        help="Count drops in a metric of your own: metric(outputs, samples) returns one number a sample, or "
        "one for all; 1 is best.",
    ),
]
