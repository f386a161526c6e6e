"""Odd, damaged and hostile image files; Pillow wrote them, numpy says what they hold."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ptq.core.errors import DataError
from ptq.data import InputSpec, Preprocess, open_samples

SPEC = InputSpec("x", np.dtype(np.float32), (None, 3, None, None))
RGB = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)


def encoded(image: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99))


GOOD = encoded(Image.fromarray(RGB), "PNG")
JPEG = encoded(Image.fromarray(RGB), "JPEG")

BAD = {
    "corrupt.jpg": b"\xff\xd8\xff\xe0" + b"garbage" * 40,
    "truncated.jpg": JPEG[: len(JPEG) // 2],
    "truncated.png": GOOD[: len(GOOD) // 2],
    "checksum.png": GOOD[:-13] + bytes([GOOD[-13] ^ 1]) + GOOD[-12:],
    "empty.png": b"",
    "bomb.png": png_header(20000, 20000),
    "warned-bomb.png": png_header(10000, 10000),
    "zero.png": png_header(0, 5),
    "text.png": b"hello",
    "script.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "postscript.jpg": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "float.tif": encoded(Image.fromarray(np.array([[0.5]], np.float32)), "TIFF"),
    "wide.tif": encoded(Image.fromarray(np.array([[70000]], np.int32)), "TIFF"),
    "narrow.tif": encoded(Image.fromarray(np.array([[0, 255]], np.int32)), "TIFF"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_image_is_an_error_of_one_line_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "0.png").write_bytes(GOOD)
    (tmp_path / name).write_bytes(BAD[name])
    with pytest.raises(DataError) as caught:
        list(open_samples(tmp_path, [SPEC]))
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert "\n" not in str(caught.value)


def test_skip_bad_leaves_bad_images_out_and_lists_them(tmp_path: Path) -> None:
    (tmp_path / "good.png").write_bytes(GOOD)
    for name, content in BAD.items():
        (tmp_path / name).write_bytes(content)
    samples = open_samples(tmp_path, [SPEC], skip_bad=True)
    for _ in range(2):
        assert [s.name for s in samples] == ["good.png"]
        assert [name for name, _ in samples.skipped] == sorted(BAD)
        assert all(name in reason for name, reason in samples.skipped)


def test_nothing_but_bad_images_is_an_error_even_when_skipping(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"all 1 samples that were read are bad; the first: .*a\.png"
    ):
        list(open_samples(tmp_path, [SPEC], skip_bad=True))


def test_damage_anywhere_in_a_file_is_an_error_or_an_image_never_another_exception(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(1)
    forms = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
    path = tmp_path / "a.png"
    refused = 0
    for form in forms:
        intact = np.frombuffer(encoded(Image.fromarray(RGB), form), np.uint8)
        for _ in range(40):
            damaged = intact[: rng.integers(1, len(intact) + 1)].copy()
            places = rng.integers(0, min(len(damaged), 200), 4)
            damaged[places] = rng.integers(0, 256, 4)
            path.write_bytes(damaged.tobytes())
            try:
                list(open_samples(tmp_path, [SPEC]))
            except DataError:
                refused += 1
    assert refused > 100


def test_an_extreme_shape_is_refused_before_it_is_resized(tmp_path: Path) -> None:
    Image.new("RGB", (60000, 1)).save(tmp_path / "line.png")
    with pytest.raises(
        DataError, match=r"line\.png: the image is too large once resized to 256×15360000"
    ):
        list(open_samples(tmp_path, [SPEC], Preprocess(resize=256, crop=(224, 224))))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jpg")
    with pytest.raises(DataError, match=r"x\.jpg: is not a regular file"):
        list(open_samples(tmp_path, [SPEC]))


def test_an_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(GOOD)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    samples = open_samples(tmp_path, [SPEC])
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"a\.png: cannot read the image: Permission denied"):
        list(samples)


def test_symlink_loops_end_and_each_folder_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.png").write_bytes(GOOD)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "self").symlink_to(".")
    (tmp_path / "cat" / "up").symlink_to("..")
    (tmp_path / "alias").symlink_to("cat")
    samples = open_samples(tmp_path, [SPEC])
    assert samples.names == ["cat/a.png"]
    assert samples.classes == ("cat",)


def test_a_link_to_a_folder_elsewhere_is_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.png").write_bytes(GOOD)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dog").symlink_to(tmp_path / "far")
    assert open_samples(tmp_path / "data", [SPEC]).names == ["dog/a.png"]


def test_a_dangling_link_is_a_bad_sample(tmp_path: Path) -> None:
    (tmp_path / "a.png").symlink_to("gone.png")
    with pytest.raises(DataError, match=r"a\.png: is a link to what does not exist"):
        list(open_samples(tmp_path, [SPEC]))


def test_hidden_files_and_sidecars_are_passed_over(tmp_path: Path) -> None:
    for name in (".DS_Store", "Thumbs.db", "labels.txt", "notes.md", "annotations.json"):
        (tmp_path / name).write_bytes(b"\0cat"[1:])
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.png").write_bytes(b"")
    (tmp_path / "A.JPG").write_bytes(JPEG)
    assert open_samples(tmp_path, [SPEC]).names == ["A.JPG"]


@pytest.mark.parametrize("files", [[], ["a.txt", "b.pdf"], ["images.zip"]])
def test_a_folder_without_images_says_so(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match="no samples in this folder"):
        open_samples(tmp_path, [SPEC])


def test_a_folder_of_images_and_npz_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(GOOD)
    np.savez(tmp_path / "a.npz", x=RGB)
    with pytest.raises(DataError, match="both images and"):
        open_samples(tmp_path, [SPEC])


def one(folder: Path, content: bytes, spec: InputSpec = SPEC) -> np.ndarray[Any, Any]:
    """The one image of a folder as it is fed, turned back into pixel values."""
    (folder / "image").write_bytes(content)
    (sample,) = open_samples(folder, [spec], Preprocess(scale=1 / 255))
    array: np.ndarray[Any, Any] = sample.feed["x"][0].transpose(1, 2, 0) * 255
    return array


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bit_gray_is_scaled_and_not_clipped(tmp_path: Path, channels: int) -> None:
    values = np.arange(0, 65536, 64, dtype=np.uint16).reshape(32, 32)
    spec = InputSpec("x", np.dtype(np.float32), (None, channels, None, None))
    pgm = b"P5 32 32 65535\n" + values.astype(">u2").tobytes()
    for content in (
        encoded(Image.fromarray(values), "PNG"),
        encoded(Image.fromarray(values), "TIFF"),
        pgm,
    ):
        found = one(tmp_path, content, spec)
        np.testing.assert_allclose(found, (values / 257)[:, :, None].repeat(channels, 2), atol=0.51)


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    flat = Image.new("RGB", (16, 16), (200, 60, 30))
    found = one(tmp_path, encoded(flat.convert("CMYK"), "JPEG", quality=100))
    np.testing.assert_allclose(found, np.broadcast_to((200, 60, 30), (16, 16, 3)), atol=3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    # EXIF 2.32, tag 274: where row 0 and column 0 of the stored pixels lie in the scene.
    upright = {
        1: RGB,
        2: RGB[:, ::-1],
        3: RGB[::-1, ::-1],
        4: RGB[::-1],
        5: RGB.transpose(1, 0, 2),
        6: np.rot90(RGB, -1),
        7: RGB[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(RGB),
    }
    exif = Image.Exif()
    exif[274] = orientation
    found = one(tmp_path, encoded(Image.fromarray(RGB), "PNG", exif=exif))
    np.testing.assert_allclose(found, upright[orientation], atol=1e-3)


def test_the_first_frame_of_an_animation_is_taken(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    for form in ("GIF", "PNG", "TIFF"):
        content = encoded(frames[0], form, save_all=True, append_images=frames[1:])
        np.testing.assert_allclose(one(tmp_path, content)[0, 0], (255, 0, 0), atol=1e-3)


def test_alpha_is_dropped_and_not_composited(tmp_path: Path) -> None:
    alpha = np.dstack([RGB, np.zeros_like(RGB[:, :, 0])])
    found = one(tmp_path, encoded(Image.fromarray(alpha), "PNG"))
    np.testing.assert_allclose(found, RGB, atol=1e-3)


def test_palettes_with_and_without_transparency_give_their_colours(tmp_path: Path) -> None:
    image = Image.fromarray(RGB).quantize(64)
    wanted = np.asarray(image.convert("RGB"))
    for options in ({}, {"transparency": 0}, {"transparency": bytes(range(64))}):
        found = one(tmp_path, encoded(image, "PNG", **options))
        np.testing.assert_allclose(found, wanted, atol=1e-3)


@pytest.mark.parametrize("mode", ["1", "L", "LA"])
def test_gray_images_feed_three_equal_channels(tmp_path: Path, mode: str) -> None:
    image = Image.fromarray(RGB).convert(mode)
    wanted = np.asarray(image.convert("L"), np.float64)
    found = one(tmp_path, encoded(image, "PNG"))
    np.testing.assert_allclose(found, wanted[:, :, None].repeat(3, 2), atol=1e-3)


def test_an_image_beyond_the_bound_is_refused_where_pillows_own_is_lifted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bomb.png").write_bytes(BAD["bomb.png"])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(DataError, match=r"bomb\.png: the image is too large at 20000×20000"):
        list(open_samples(tmp_path, [SPEC]))


def test_a_folder_that_cannot_be_listed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match="cannot list the folder: Permission denied"):
        open_samples(tmp_path, [SPEC])


def test_labels_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(GOOD)
    (tmp_path / "labels.txt").write_bytes(b"a.png \xff\xfe")
    with pytest.raises(DataError, match=r"labels\.txt: not a text in UTF-8"):
        open_samples(tmp_path, [SPEC])


def test_two_labels_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(GOOD)
    for name in ("labels.txt", "labels.csv"):
        (tmp_path / name).write_text("a.png 1")
    with pytest.raises(DataError, match=r"has both labels\.txt and labels\.csv"):
        open_samples(tmp_path, [SPEC])
