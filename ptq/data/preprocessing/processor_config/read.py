"""A file, a dict or a processor as options of `ptq.data.Preprocess`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ptq.core.errors import UsageError
from ptq.data.preprocessing.processor_config import timm, transformers
from ptq.data.preprocessing.processor_config.entries import Options

MAX_BYTES = 2**24
"""Largest file. A configuration has a few hundred bytes; timm's may list thousands of class names."""


def read_processor_config(source: Any) -> Options:
    """Arguments of `ptq.data.Preprocess` from the configuration of an image processor.

    Args:
        source: A ``preprocessor_config.json`` of Hugging Face, or timm's ``config.json``; its content as a dict; or
            an object with ``to_dict()``, such as an image processor of transformers.

    Raises:
        UsageError: The file cannot be read, or a key that changes pixels is unknown.
    """
    where = "the processor configuration"
    if isinstance(source, (str, os.PathLike)):
        where, source = str(source), _read_json(Path(source))
    elif callable(getattr(source, "to_dict", None)) and not isinstance(source, Mapping):
        source = source.to_dict()
    if not isinstance(source, Mapping):
        raise UsageError(
            f"{where}: has type {type(source).__name__}; give a preprocessor_config.json, "
            "timm's config.json, or a dict of either"
        )
    nested = source.get("pretrained_cfg")
    if isinstance(nested, Mapping):
        return timm.read_options(nested, where)
    if timm.is_timm(source):
        return timm.read_options(source, where)
    if not any(str(key).startswith(("do_", "image_", "feature_extractor")) for key in source):
        raise UsageError(
            f"{where}: has neither the keys of a preprocessor_config.json (do_resize, image_mean …) "
            "nor those of timm (input_size, mean …); it configures no image processor"
        )
    return transformers.read_options(source, where)


def _read_json(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path}: is larger than {MAX_BYTES >> 20} MiB; give a configuration")
        return json.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the file: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not JSON: {' '.join(str(error).split())}") from error
