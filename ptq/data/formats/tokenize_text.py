"""Texts as values of the model's inputs, by a ``tokenizer.json`` of the package tokenizers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core import files
from ptq.core.errors import DataError, UsageError
from ptq.data.input_spec import InputSpec, cast_to_input
from ptq.data.preprocessing.text_preprocess import TextPreprocess

PAD_TOKENS = ("[PAD]", "<pad>", "<PAD>", "<|pad|>")
"""Names of the padding token, if the file does not say how to pad."""
INSTALL = 'python -m pip install "onnx-ptq[text]"'


class TextReader:
    """Applies one tokenizer to texts."""

    def __init__(self, inputs: Sequence[InputSpec], preprocess: TextPreprocess) -> None:
        """Load the tokenizer; raise UsageError or DataError if it, or the model's inputs, cannot be used."""
        found = preprocess.resolved(inputs)
        if found.tokenizer is None:
            known = found.tokenizer_sha256
            raise UsageError(
                "texts need the tokenizer file of the model"
                + (f", with SHA-256 {known}, as recorded" if known else "")
                + "; give its path, of a tokenizer.json (option tokenizer)"
            )
        self._inputs = inputs
        path = Path(found.tokenizer)
        self._tokenizer, digest = _load_tokenizer(path)
        self.preprocess = replace(found, tokenizer_sha256=digest)
        _set_length(self._tokenizer, found.length, path)

    def read(self, text: str, where: str) -> dict[str, NDArray[Any]]:
        """One feed, with a batch axis of 1.

        Args:
            text: The text.
            where: Name of the text in errors.

        Raises:
            DataError: The text gives no token.
        """
        encoded = self._tokenizer.encode(text)
        if not encoded.ids:
            raise DataError(f"{where}: the text gives no token; remove it")
        mask = np.array(encoded.attention_mask, np.int64)
        values = {
            "input_ids": np.array(encoded.ids, np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array(encoded.type_ids, np.int64),
            # as Hugging Face's models count: 0 at the first token, whichever side is padded
            "position_ids": np.maximum(np.cumsum(mask) - 1, 0),
        }
        return {
            spec.name: cast_to_input(spec, values[spec.name][np.newaxis], where)
            for spec in self._inputs
        }


def _load_tokenizer(path: Path) -> tuple[Any, str]:
    """The tokenizer in a file, and the SHA-256 of the file."""
    try:
        content = files.read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"tokenizer {path} cannot be read: {reason}; give tokenizer.json"
        ) from None
    try:
        import tokenizers
    except ImportError:
        raise UsageError(
            f"texts need the package tokenizers, which is not installed: {INSTALL}"
        ) from None
    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(content)
    except Exception as error:  # the package raises Exception itself
        reason = " ".join(str(error).split())[:200]
        raise UsageError(
            f"tokenizer {path} is not a tokenizer.json of the package tokenizers: {reason}"
        ) from None
    return tokenizer, hashlib.sha256(content).hexdigest()


def _set_length(tokenizer: Any, length: int | None, path: Path) -> None:
    """Truncate and pad to a length; without one keep the truncation of the file, which is the model's limit."""
    padding = tokenizer.padding
    tokenizer.no_padding()
    if length is None:
        return
    if padding is None:
        numbers = {name: tokenizer.token_to_id(name) for name in PAD_TOKENS}
        name = next((name for name, number in numbers.items() if number is not None), None)
        if name is None:
            raise UsageError(
                f"tokenizer {path} names no padding token, and the model takes {length} tokens; enable the padding "
                "in the file, or export the model with a dynamic length"
            )
        padding = {"pad_id": numbers[name], "pad_token": name}
    kept = {
        key: padding[key]
        for key in ("direction", "pad_id", "pad_type_id", "pad_token")
        if key in padding
    }
    cut = {
        key: value
        for key, value in (tokenizer.truncation or {}).items()
        if key in ("strategy", "direction")
    }
    special = tokenizer.num_special_tokens_to_add(False)
    if special >= length:
        raise UsageError(
            f"tokenizer {path} adds {special} special tokens, and the model takes {length} in all"
        )
    tokenizer.enable_truncation(max_length=length, **cut)
    tokenizer.enable_padding(length=length, **kept)
