"""The size of an image, by the shapes of the inputs."""

from __future__ import annotations

import numpy as np
import pytest

from ptq.evaluation.tasks.image_size import find_image_size


@pytest.mark.parametrize(
    ("shapes", "size"),
    [
        ([(1, 3, 20, 30)], (20, 30)),
        ([(1, 4, 20, 30)], (20, 30)),
        ([(1, 20, 30, 1)], (20, 30)),
        ([(1, 2), (1, 3, 20, 30)], (20, 30)),
        ([(2, 3, 20, 30)], None),
        ([(1, 3, 20, 30), (1, 3, 10, 10)], None),
        ([(1, 16, 20, 30)], None),
        ([(1, 20)], None),
        ([], None),
    ],
)
def test_exactly_one_input_is_one_image(
    shapes: list[tuple[int, ...]], size: tuple[int, int] | None
) -> None:
    feed = {f"x{k}": np.zeros(shape, np.float32) for k, shape in enumerate(shapes)}
    assert find_image_size(feed) == size
