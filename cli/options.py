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
Equalize = Annotated[
    bool,
    typer.Option(
        "--equalize/--no-equalize",
        help="Make the channels between layers alike, for one scale to suit them, where held-out "
        "samples gain by it.",
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
    typer.Option(
        "--threads", metavar="N", min=0, max=1024, help="Threads in ONNX Runtime; 0 is one a core."
    ),
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
