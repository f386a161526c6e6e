"""Files that a wheel holds beside the code; in a checkout they stand in a folder of the repository."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path


def find_package_file(package: str, folder: str, name: str) -> Path | None:
    """The path of a file; None if it is neither installed nor in a checkout.

    Args:
        package: The package of the wheel that holds it.
        folder: The folder of the repository that this package is made of.
        name: The file.
    """
    return next((path for path in _list_places(package, folder, name) if path.is_file()), None)


def _list_places(package: str, folder: str, name: str) -> Iterator[Path]:
    # a checkout, installed or not; Python 3.13 raises ValueError where it is installed
    with suppress(ModuleNotFoundError, NotADirectoryError, ValueError):
        yield Path(str(resources.files(package).joinpath(name)))
    yield Path(__file__).resolve().parents[1] / folder / name
