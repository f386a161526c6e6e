"""Options and arguments that several commands share, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from .parsers import parse_count, parse_number

# Copies of names and defaults of ptq, because importing ptq takes a second and --help does not need it.
# A test compares them with ptq.
MethodName = Literal["auto", "minmax", "percentile", "kl", "mse"]
TargetName = Literal[
    "ort",
    "litert",
    "litert-xnnpack",
    "litert-a16",
    "tpu-mlir",
    "gemmlowp",
    "tensorrt",
    "openvino",
    "portable",
    "qnn",
    "qnn-a16",
    "ort-xnnpack",
]
ArithmeticName = Literal[
    "ort", "ort-avx2", "litert", "litert-xnnpack", "tflite-micro", "gemmlowp", "tpu-mlir", "tpu-mlir-8", "fixed-point"
]  # fmt: skip
EngineName = Literal["ort", "integer"]
TaskName = Literal["classify", "detect", "ctc", "embed", "segment", "sequence", "none"]
EffortName = Literal["fast", "default", "best"]
PreferenceName = Literal["accuracy", "balanced", "speed"]
_VERSIONS = "ort is the installed ONNX Runtime's; ort@1.31 is that of ONNX Runtime 1.31."
DEFAULT_BATCH = 8
DEFAULT_CALIBRATION_BATCH = 16
DEFAULT_MEASURED = 5
DEFAULT_SECONDS = 3.0
Form = Literal["qdq", "qoperator", "tflite"]
WeightFormat = Literal["auto", "s8", "reduced", "u8"]
Rounding = Literal["second-order", "nearest"]


def list_names(literal: object) -> str:
    """The names of a Literal type as a phrase: ``a, b or c``."""
    *names, last = get_args(literal)
    return f"{', '.join(names)} or {last}" if names else str(last)


SAMPLES_HELP = (
    "Samples: a folder of images, WAV files or .txt files (class sub-folders or a labels file give labels), a .txt "
    "of one text on each line, an .npz (arrays by input name and "
    "optional 'labels', leading axis = samples), a folder of .npz (one whole feed each), an .npy for "
    "a single input, tar shards, .parquet files, a URL or a pattern of these, or module:callable."
)
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The float model, an .onnx file.")]
Quantized = Annotated[
    Path, typer.Argument(metavar="QUANTIZED", help="A quantized model, an .onnx or .tflite file.")
]
AnyModel = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A float or quantized model, an .onnx or .tflite file."),
]
Data = Annotated[str, typer.Option("--data", metavar="PATH", help=SAMPLES_HELP)]
OptionalData = Annotated[str | None, typer.Option("--data", metavar="PATH", help=SAMPLES_HELP)]
EvalData = Annotated[
    str | None,
    typer.Option(
        "--eval",
        metavar="PATH",
        help="Samples to measure on, given as for --data. Without it, a fifth of --data is held out if "
        "there are at least 50 samples.",
    ),
]
Target = Annotated[
    TargetName,
    typer.Option(
        "--target",
        metavar="NAME",
        parser=str,
        help=f"The runtime to quantize for: {list_names(TargetName)}.",
    ),
]
Method = Annotated[
    MethodName,
    typer.Option(
        "--method", metavar="NAME", parser=str, help=f"Range method: {list_names(MethodName)}."
    ),
]
PerTensor = Annotated[
    bool,
    typer.Option("--per-tensor", help="One scale for each weight instead of one for each channel."),
]
Arithmetic = Annotated[
    ArithmeticName,
    typer.Option(
        "--arithmetic",
        metavar="NAME",
        parser=str,
        help=f"Arithmetic of the integer executor: {list_names(ArithmeticName)}. {_VERSIONS}",
    ),
]
OptionalArithmetic = Annotated[
    ArithmeticName | None,
    typer.Option(
        "--arithmetic",
        metavar="NAME",
        parser=str,
        help=f"Arithmetic of the integer executor: {list_names(ArithmeticName)}; by default that of the target. "
        f"{_VERSIONS}",
    ),
]
Equalize = Annotated[
    bool,
    typer.Option(
        "--equalize/--no-equalize",
        help="Cross-layer equalization and SmoothQuant-style channel scaling; kept only if held-out "
        "samples improve.",
    ),
]
Prefer = Annotated[
    PreferenceName,
    typer.Option(
        "--prefer",
        metavar="NAME",
        parser=str,
        help="What float nodes may cost. balanced: up to 3 % of the time where that halves the error, up to 15 % "
        "while decisions change. accuracy: more. speed: nothing (target ort, not with --effort fast).",
    ),
]
CostTable = Annotated[
    Path | None,
    typer.Option(
        "--cost-table",
        metavar="FILE",
        help="A table of times that ptq tune wrote; it decides which nodes stay float.",
    ),
]
MinSpeedup = Annotated[
    float | None,
    typer.Option(
        "--min-speedup",
        metavar="FACTOR",
        parser=parse_number("min_speedup", least=0),
        help="The lowest speed relative to float; the exit code is 3 if the result is slower for certain.",
    ),
]
Effort = Annotated[
    EffortName,
    typer.Option(
        "--effort",
        metavar="NAME",
        parser=str,
        help="fast: no trials, only ranges by mse, bias correction and second-order rounding. default: trials on few "
        "samples, more where these do not decide. best: more samples and runs for each decision.",
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip",
        metavar="NODE",
        help="Keep a node, or every node of an operator, in float; can be repeated. Names are those of ptq inspect "
        "or of the given model.",
    ),
]
SampleCount = Annotated[
    int | None,
    typer.Option(
        "--samples",
        metavar="N",
        parser=parse_count("samples", least=1),
        help="Use N samples of --data, spread evenly over it; of a generator, the first N.",
    ),
]
Batch = Annotated[
    int,
    typer.Option(
        "--batch",
        metavar="N",
        parser=parse_count("batch", least=1),
        help="Samples that run at once when accuracy is measured, if the model allows any batch size.",
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads",
        metavar="N",
        parser=parse_count("threads", most=1024),
        help="Threads of ONNX Runtime and of ptq itself; 0 means one for each core, and where several "
        "processes share the samples one for each.",
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Save the state of the calibration to this file every few seconds. After an interruption, run "
        "the same command again: it continues there and writes the same bytes. Range methods are then compared "
        "on the samples that set the ranges, not on others, so the model may differ from one without it.",
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad-samples",
        help="Leave out bad samples and list them, instead of stopping at the first.",
    ),
]
Opset = Annotated[
    Literal["auto", "keep"],
    typer.Option(
        "--opset",
        metavar="auto|keep",
        parser=str,
        help="auto: raise the opset where an operator needs it. keep: leave it, for older runtimes; functions that "
        "need a newer opset stay in float. It needs opset 13; quantize --per-tensor opset 10.",
    ),
]
NoClobber = Annotated[
    bool,
    typer.Option(
        "--no-clobber",
        help="Refuse to start if an output file exists, instead of replacing it.",
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="DIR|SIZE",
        help="Keep samples on disk after their first reading, in a temporary file: in the folder DIR, or up to SIZE "
        "such as 20GB. Samples of module:callable over 256 MiB are otherwise read anew for each pass.",
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE|-", help="Write the result as JSON; - is standard output."
    ),
]
Page = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Write the result as one HTML page."),
]
MaxDrop = Annotated[
    float | None,
    typer.Option(
        "--max-drop",
        metavar="PCT",
        parser=parse_number("max_drop", least=0),
        help="Accuracy budget in percentage points of the task's measure: top-1, mAP with --boxes, exact lines "
        "with --transcripts, else agreement with float, else error energy; exit code 3 if exceeded.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="With --max-drop: exit code 3 also if the samples are too few to decide. Use it in CI.",
    ),
]
SummaryFile = Annotated[
    Path | None,
    typer.Option(
        "--summary",
        metavar="FILE.md",
        help='Append the result in short to a Markdown file, for example "$GITHUB_STEP_SUMMARY".',
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="MODULE:CALLABLE",
        help="Your own metric for drops: metric(outputs, samples) returns one number for each sample, or "
        "one for all. 1 is best.",
    ),
]
Task = Annotated[
    TaskName | None,
    typer.Option(
        "--task",
        metavar="NAME",
        parser=str,
        help=f"What the outputs decide: {list_names(TaskName)}. Drops are measured in these decisions; "
        "with none, they are the energy of the error. "
        "By default the task is recognized from shapes, names and values of the outputs.",
    ),
]
