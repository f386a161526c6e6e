"""Options from timm's ``pretrained_cfg``, against timm's own transforms: every configuration that timm ships.

It needs timm, torch and torchvision, whose versions must belong together: ``pip install timm``. They take gigabytes,
so no extra has them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ptq.core.errors import UsageError
from ptq.data import InputSpec, Preprocess, open_samples

timm = pytest.importorskip("timm", reason="timm is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

Config = dict[str, Any]

IMAGE_SIZES = ((97, 64), (45, 71), (330, 281))
INPUT = InputSpec("x", np.dtype(np.float32), (None, 3, None, None))
FILTERS = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A folder with one image for each size, wide and high, smaller and larger than most inputs."""
    found = []
    for width, height in IMAGE_SIZES:
        folder = tmp_path_factory.mktemp(f"{width}x{height}")
        pixels = np.random.default_rng(7).integers(0, 256, (height, width, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "a.png")
        found.append(folder)
    return found


def assert_pixels_are_those_of_timm(config: Config, preprocess: Preprocess, folder: Path) -> None:
    """Compare the integers after resizing and cropping exactly, and the normalized values to float32's rounding."""
    with Image.open(folder / "a.png") as image:
        pixels = timm.data.create_transform(**config, normalize=False)(image).numpy()
        normalized = timm.data.create_transform(**config)(image).numpy()
    (own,) = open_samples(folder, [INPUT], replace(preprocess, scale=1, mean=None, std=None))
    np.testing.assert_array_equal(own.feed["x"][0], pixels)
    (own,) = open_samples(folder, [INPUT], preprocess)
    np.testing.assert_allclose(own.feed["x"][0], normalized, rtol=1e-6, atol=1e-6)


def shipped_configs() -> dict[str, Config]:
    """The ``pretrained_cfg`` of a model for each preprocessing that timm ships weights for, by its resolved form."""
    found: dict[str, Config] = {}
    for name in timm.list_pretrained():
        config = timm.models.get_pretrained_cfg(name).to_dict()
        resolved = timm.data.resolve_data_config(pretrained_cfg=config)
        found.setdefault(json.dumps(resolved, sort_keys=True), config)
    return found


def test_every_configuration_that_timm_ships_gives_its_pixels_or_is_refused(
    folders: list[Path],
) -> None:
    taken, refused = 0, set()
    for number, (resolved, config) in enumerate(shipped_configs().items()):
        try:
            preprocess = Preprocess.from_config({"architecture": "x", "pretrained_cfg": config})
        except UsageError as error:
            refused.add(str(error).split(": ")[1].split(" = ")[0])
            continue
        assert Preprocess.from_config(json.loads(resolved)) == preprocess
        folder = folders[number % len(folders)]
        assert_pixels_are_those_of_timm(json.loads(resolved), preprocess, folder)
        taken += 1
    assert taken > 100
    assert refused <= {"crop_mode", "crop_pct"}  # borders and padding


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("crop_pct", [0.875, 0.9, 1.0])
def test_every_filter_gives_the_pixels_of_timm(
    interpolation: str, crop_pct: float, folders: list[Path]
) -> None:
    given = {"input_size": (3, 53, 53), "interpolation": interpolation, "crop_pct": crop_pct}
    config = timm.data.resolve_data_config(pretrained_cfg=given)
    for folder in folders:
        assert_pixels_are_those_of_timm(config, Preprocess.from_config(given), folder)


def test_a_squashed_image_has_the_pixels_of_timm(folders: list[Path]) -> None:
    given = {"input_size": (3, 48, 64), "crop_pct": 1.0, "crop_mode": "squash"}
    config = timm.data.resolve_data_config(pretrained_cfg=given)
    for folder in folders:
        assert_pixels_are_those_of_timm(config, Preprocess.from_config(given), folder)
