"""Several graphs: an encoder, and a decoder that runs step by step; each is quantized on its real inputs."""

from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

import ptq

LETTERS = ".abcdefghijklmnopqrstuvwxyz-"  # the first one starts and ends a name


def open_model(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def read_images(folder):
    for path in sorted(Path(folder).glob("*/*.png"))[::2]:
        pixels = np.asarray(Image.open(path), np.float32)[None, None] / 255
        yield (pixels - 0.286) / 0.353


def write_caption(encoder, decoder, image, record=None):
    """The pipeline; ``record`` gets the feed of each step of the decoder."""
    scores = encoder.run(None, {"input": image})[0]
    letter, state, text = np.array([0]), np.zeros((1, 192), np.float32), ""
    for _ in range(12):
        feed = {"scores": scores, "letter": letter, "state": state}
        if record is not None:
            record.append(feed)
        letters, state = decoder.run(None, feed)
        letter = letters.argmax(axis=1)
        if letter[0] == 0:
            break
        text += LETTERS[letter[0]]
    return text


# 1. Run the float pipeline, and record what each graph gets: early and late steps of the decoder.
encoder, decoder = open_model("encoder.onnx"), open_model("decoder.onnx")
steps: list[dict] = []
images = list(read_images("images/calibration"))
for image in images:
    write_caption(encoder, decoder, image, steps)

# 2. Quantize each graph alone.
for name, data in [("encoder", [{"input": image} for image in images]), ("decoder", steps)]:
    ptq.quantize(f"{name}.onnx", data).save(f"{name}.int8.onnx")

# 3. Measure the whole pipeline: errors of the parts add up.
small = open_model("encoder.int8.onnx"), open_model("decoder.int8.onnx")
same = [
    write_caption(encoder, decoder, image) == write_caption(*small, image)
    for image in read_images("images/evaluation")
]
print(f"{np.mean(same):.1%} of {len(same)} captions are those of the float pipeline")
assert np.mean(same) > 0.9
