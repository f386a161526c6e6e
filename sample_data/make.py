"""Make the sample data: a small image classifier in ONNX and the images that go with it.

What is made, beside this file or in the folder given with ``--output``:

``fashion_mobilenet.onnx``
    A network in the style of MobileNetV2 (inverted residuals, depthwise convolutions, ReLU6) for
    28x28 grayscale images, trained here from scratch. Its BatchNormalization nodes are left in.
``images/calibration/<class>/train_NNNNN.png``
    A balanced choice of training images, for calibration.
``images/evaluation/<class>/test_NNNNN.png``
    A balanced choice of test images, for measuring accuracy. The network never saw them.

The number in a file's name is the image's index in its set. The class folders sort in the order
of the labels, so the position of a folder among its sorted siblings is the label.

The images are from Fashion-MNIST (https://github.com/zalandoresearch/fashion-mnist), copyright
2017 Zalando SE, MIT licence. Debian's package ``dataset-fashion-mnist`` has its four files, which
``--data`` names the folder of. The weights of the network are under the project's own licence,
Apache-2.0.
"""

import argparse
import gzip
import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

DEFAULT_DATA = Path("/usr/share/datasets/fashion-mnist")
DEFAULT_OUTPUT = Path(__file__).resolve().parent
MODEL_NAME = "fashion_mobilenet.onnx"

CLASSES = (
    "0_t-shirt",
    "1_trouser",
    "2_pullover",
    "3_dress",
    "4_coat",
    "5_sandal",
    "6_shirt",
    "7_sneaker",
    "8_bag",
    "9_ankle-boot",
)
IMAGE_SIZE = 28
MEAN = 0.2860
STD = 0.3530

IDX_IMAGES_MAGIC = 0x0803
IDX_LABELS_MAGIC = 0x0801

SEED = 20170828
CALIBRATION_COUNT = 128
EVALUATION_COUNT = 500


class Stage(NamedTuple):
    """Inverted residuals in a row; the stride is that of the first, the others have 1."""

    channels: int
    stride: int
    repeats: int
    expansion: int


STEM_CHANNELS = 16
HEAD_CHANNELS = 128
STAGES = (
    Stage(channels=16, stride=1, repeats=1, expansion=1),
    Stage(channels=24, stride=2, repeats=2, expansion=4),
    Stage(channels=40, stride=2, repeats=3, expansion=4),
    Stage(channels=56, stride=1, repeats=2, expansion=4),
)

THREADS = 2
EPOCHS = 20
BATCH_SIZE = 128
EVALUATION_BATCH_SIZE = 500
PEAK_LEARNING_RATE = 5e-3
WEIGHT_DECAY = 0.02
WARM_UP = 0.2
LABEL_SMOOTHING = 0.05
MAX_SHIFT = 2

OPSET = 17

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Predictor = Callable[[Floats], Floats]


class Split(NamedTuple):
    """Images of shape (count, 28, 28) and the label of each."""

    images: Bytes
    labels: Bytes


class InvertedResidual(nn.Sequential):
    """Expand with 1x1, filter each channel by itself with 3x3, project with 1x1.

    The input is added to the result where both have the same shape.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        """Lay out the convolutions; an expansion of 1 needs no first one."""
        hidden = inputs * expansion
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if expansion > 1:
            layers["expand"] = convolution(inputs, hidden, kernel=1)
        layers["depthwise"] = convolution(hidden, hidden, kernel=3, stride=stride, groups=hidden)
        layers["project"] = convolution(hidden, outputs, kernel=1, activation=False)
        super().__init__(layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        out: Tensor = super().forward(x)  # type: ignore[no-untyped-call]
        return x + out if self.residual else out


def convolution(
    inputs: int,
    outputs: int,
    *,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    activation: bool = True,
) -> nn.Sequential:
    """Return a padded convolution, BatchNorm and, unless switched off, ReLU6."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv=nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        norm=nn.BatchNorm2d(outputs),
    )
    if activation:
        layers["relu6"] = nn.ReLU6()
    return nn.Sequential(layers)


def build_network() -> nn.Sequential:
    """Return the untrained classifier."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["stem"] = convolution(1, STEM_CHANNELS, kernel=3)
    channels = STEM_CHANNELS
    for stage in STAGES:
        for repeat in range(stage.repeats):
            stride = stage.stride if repeat == 0 else 1
            block = InvertedResidual(channels, stage.channels, stride, stage.expansion)
            layers[f"block{len(layers)}"] = block
            channels = stage.channels
    layers["head"] = convolution(channels, HEAD_CHANNELS, kernel=1)
    layers["pool"] = nn.AdaptiveAvgPool2d(1)
    layers["flatten"] = nn.Flatten()
    layers["classifier"] = nn.Linear(HEAD_CHANNELS, len(CLASSES))
    return nn.Sequential(layers)


def read_idx(path: Path, magic: int) -> Bytes:
    """Read a gzipped IDX file of unsigned bytes."""
    raw = gzip.decompress(path.read_bytes())
    if int.from_bytes(raw[:4], "big") != magic:
        raise ValueError(f"{path}: not an IDX file of the expected kind")
    rank = magic & 0xFF
    shape = np.frombuffer(raw, ">u4", count=rank, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape.tolist())


def read_split(folder: Path, prefix: str) -> Split:
    """Read the images and labels of the set named ``train`` or ``t10k``."""
    images = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz", IDX_IMAGES_MAGIC)
    labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", IDX_LABELS_MAGIC)
    return Split(images, labels)


def read_png_folders(folder: Path) -> Split:
    """Read images from class folders; a folder's place in the sorted order is the label."""
    images, labels = [], []
    for label, name in enumerate(CLASSES):
        for path in sorted((folder / name).glob("*.png")):
            with Image.open(path) as image:
                images.append(np.asarray(image, np.uint8))
            labels.append(label)
    return Split(np.stack(images), np.array(labels, np.uint8))


def normalise(images: Bytes) -> Floats:
    """Turn 8-bit images of shape (count, 28, 28) into the network's input."""
    scaled = (images.astype(np.float32) / np.float32(255) - np.float32(MEAN)) / np.float32(STD)
    return scaled[:, np.newaxis]


def choose_balanced(labels: Bytes, count: int) -> NDArray[np.int64]:
    """Choose ``count`` indices at random, by the fixed seed, spread evenly over the classes.

    Where the count does not divide evenly, the first classes get one more.
    """
    generator = np.random.Generator(np.random.PCG64(SEED))
    each, extra = divmod(count, len(CLASSES))
    chosen = [
        generator.permutation(np.flatnonzero(labels == label))[: each + (label < extra)]
        for label in range(len(CLASSES))
    ]
    return np.sort(np.concatenate(chosen))


def write_images(folder: Path, split: Split, count: int, prefix: str) -> None:
    """Write a balanced choice as PNG files in class folders, in place of those there before."""
    for stale in folder.glob(f"*/{prefix}_*.png"):
        stale.unlink()
    for index in choose_balanced(split.labels, count):
        path = folder / CLASSES[split.labels[index]] / f"{prefix}_{index:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(split.images[index]).save(path, optimize=True)
    print(f"{folder}: {count} images")


def augment(images: Tensor, generator: torch.Generator) -> Tensor:
    """Flip half of the images left to right, and shift each by up to ``MAX_SHIFT`` pixels."""
    count = len(images)
    flip = torch.rand(count, generator=generator) < 0.5
    flipped = torch.where(flip.view(-1, 1, 1, 1), images.flip(3), images)
    padded = functional.pad(flipped, (MAX_SHIFT,) * 4, value=-MEAN / STD)
    shift = torch.randint(2 * MAX_SHIFT + 1, (2, count, 1), generator=generator)
    rows, columns = shift + torch.arange(IMAGE_SIZE)
    picked = padded[torch.arange(count).view(-1, 1, 1), 0, rows[:, :, None], columns[:, None, :]]
    return picked.unsqueeze(1)


def training_batches(
    images: Tensor, labels: Tensor, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch of augmented batches in random order, without the short last one."""
    order = torch.randperm(len(images), generator=generator)
    for batch in order[: len(order) // BATCH_SIZE * BATCH_SIZE].view(-1, BATCH_SIZE):
        yield augment(images[batch], generator), labels[batch]


def weight_groups(network: nn.Module) -> list[dict[str, object]]:
    """Split the parameters so that biases and BatchNorm are not decayed."""
    parameters = list(network.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def train(network: nn.Module, split: Split, epochs: int) -> None:
    """Train in place with AdamW under a one-cycle learning rate."""
    images = torch.from_numpy(normalise(split.images))
    labels = torch.from_numpy(split.labels.astype(np.int64))
    generator = torch.Generator().manual_seed(SEED)
    optimiser = torch.optim.AdamW(weight_groups(network), lr=PEAK_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser,
        PEAK_LEARNING_RATE,
        total_steps=epochs * (len(images) // BATCH_SIZE),
        pct_start=WARM_UP,
    )
    network.train()
    for epoch in range(epochs):
        started = time.monotonic()
        losses = []
        for batch, targets in training_batches(images, labels, generator):
            loss = functional.cross_entropy(
                network(batch), targets, label_smoothing=LABEL_SMOOTHING
            )
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
        seconds = time.monotonic() - started
        print(
            f"epoch {epoch + 1}/{epochs}: loss {np.mean(losses):.4f}, {seconds:.0f} s", flush=True
        )


def torch_predictor(network: nn.Module) -> Predictor:
    """Return a function that runs the network in evaluation mode."""
    network.eval()

    def predict(batch: Floats) -> Floats:
        with torch.inference_mode():
            logits: Floats = network(torch.from_numpy(batch)).numpy()
        return logits

    return predict


def onnx_predictor(model: onnx.ModelProto) -> Predictor:
    """Return a function that runs the model in ONNX Runtime on the CPU."""
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def predict(batch: Floats) -> Floats:
        logits: Floats = session.run(["logits"], {"input": batch})[0]
        return logits

    return predict


def accuracy(predict: Predictor, split: Split) -> float:
    """Return the share of images whose highest logit is the label's."""
    inputs = normalise(split.images)
    batches = np.array_split(inputs, math.ceil(len(inputs) / EVALUATION_BATCH_SIZE))
    guesses = np.concatenate([predict(batch).argmax(1) for batch in batches])
    return float(np.mean(guesses == split.labels))


def export(network: nn.Module, path: Path) -> onnx.ModelProto:
    """Export with BatchNormalization left in the graph, check the model and return it."""
    torch.onnx.export(
        network.eval(),
        (torch.zeros(1, 1, IMAGE_SIZE, IMAGE_SIZE),),
        path,
        input_names=["input"],
        output_names=["logits"],
        dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=OPSET,
        dynamo=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
    )
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    return model


def describe(model: onnx.ModelProto, test_accuracy: float) -> None:
    """Store in the model what it is, how to feed it and under which licence it is."""
    model.producer_name = "ptq sample_data/make.py"
    model.producer_version = f"torch {torch.__version__}"
    model.graph.name = "fashion_mobilenet"
    onnx.helper.set_model_props(
        model,
        {
            "description": "MobileNetV2-style classifier for 28x28 grayscale images of clothing,"
            " trained on Fashion-MNIST",
            "accuracy": f"{test_accuracy:.4f}",
            "accuracy.data": "all 10,000 Fashion-MNIST test images",
            "preprocessing": "(pixel / 255 - mean) / std",
            "preprocessing.mean": f"{MEAN:.4f}",
            "preprocessing.std": f"{STD:.4f}",
            "classes": json.dumps(CLASSES),
            "license": "Apache-2.0",
            "data.name": "Fashion-MNIST",
            "data.source": "https://github.com/zalandoresearch/fashion-mnist",
            "data.license": "MIT, copyright 2017 Zalando SE",
        },
    )


def make_images(data: Path, output: Path) -> None:
    """Write the calibration and evaluation images."""
    images = output / "images"
    write_images(images / "calibration", read_split(data, "train"), CALIBRATION_COUNT, "train")
    write_images(images / "evaluation", read_split(data, "t10k"), EVALUATION_COUNT, "test")


def make_model(data: Path, output: Path, epochs: int) -> None:
    """Train the network and export it."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(SEED)
    network = build_network()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    print(f"{sum(p.numel() for p in network.parameters()):,} parameters")
    train(network, read_split(data, "train"), epochs)

    test = read_split(data, "t10k")
    test_accuracy = accuracy(torch_predictor(network), test)
    print(f"accuracy in torch, {len(test.labels)} test images: {test_accuracy:.4f}")
    output.mkdir(parents=True, exist_ok=True)
    path = output / MODEL_NAME
    model = export(network, path)
    describe(model, test_accuracy)
    onnx.save(model, path)
    print(f"{path}: {path.stat().st_size:,} bytes")


def check(data: Path, output: Path) -> None:
    """Measure the exported model in ONNX Runtime on all test images and on the chosen ones."""
    predict = onnx_predictor(onnx.load(output / MODEL_NAME))
    for name, split in (
        ("test", read_split(data, "t10k")),
        ("evaluation", read_png_folders(output / "images" / "evaluation")),
    ):
        share = accuracy(predict, split)
        print(f"accuracy in ONNX Runtime, {len(split.labels)} {name} images: {share:.4f}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        choices=("all", "images", "model", "check"),
        help="images: choose and write the images; model: train and export the network;"
        " check: measure what is there; all: these three in turn",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=DEFAULT_DATA,
        help="folder of the four Fashion-MNIST files (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=DEFAULT_OUTPUT,
        help="folder to write to (default: that of this script)",
    )
    parser.add_argument(
        "--epochs", type=int, default=EPOCHS, help="passes over the data (default: %(default)s)"
    )
    return parser.parse_args()


def main() -> None:
    """Make what the command line asks for."""
    arguments = parse_arguments()
    if arguments.what in ("all", "images"):
        make_images(arguments.data, arguments.output)
    if arguments.what in ("all", "model"):
        make_model(arguments.data, arguments.output, arguments.epochs)
    if arguments.what in ("all", "check"):
        check(arguments.data, arguments.output)


if __name__ == "__main__":
    main()
