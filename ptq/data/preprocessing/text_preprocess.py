"""Preprocessing options from text to token numbers, completed from the model's inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_fields, require_count
from ptq.data.input_spec import InputSpec

INPUT_NAMES = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
"""The inputs that texts feed, by the names of Hugging Face's exports."""
LENGTH_RULE = "truncated or padded"


@refuse_unknown_fields
@dataclass(frozen=True)
class TextPreprocess:
    """Options from text to token numbers.

    Attributes:
        tokenizer: Path of a ``tokenizer.json``; None where only its digest is known, from a record.
        tokenizer_sha256: SHA-256 of that file; found when samples are opened.
        length: Number of tokens of each sample. A longer text is truncated, a shorter one padded. None for the fixed
            length of the model's inputs; if that is dynamic, each text keeps its length.
    """

    SOURCE: ClassVar[str] = "text"
    ORDER: ClassVar[tuple[str, ...]] = ("tokenizer_sha256", "length", "length_rule")

    tokenizer: str | os.PathLike[str] | None = None
    tokenizer_sha256: str = ""
    length: int | None = None

    def __post_init__(self) -> None:
        digest = self.tokenizer_sha256
        if not isinstance(digest, str) or not re.fullmatch("(?:[0-9a-f]{64})?", digest):
            raise UsageError(f"tokenizer_sha256 {digest!r} is not a SHA-256 of 64 digits")
        if self.length is not None:
            object.__setattr__(self, "length", require_count("length", self.length, least=1))

    def override(self, given: TextPreprocess) -> TextPreprocess:
        """These options, with those of ``given`` that are not None in place of the own ones."""
        return replace(given, length=given.length or self.length)

    def resolved(self, inputs: Sequence[InputSpec]) -> TextPreprocess:
        """The same options, with the length of the model's inputs.

        Raises:
            UsageError: An input has an unknown name, or takes no token numbers.
        """
        unknown = [spec.name for spec in inputs if spec.name not in INPUT_NAMES]
        if unknown or not any(spec.name == INPUT_NAMES[0] for spec in inputs):
            raise UsageError(
                f"texts feed the inputs {', '.join(INPUT_NAMES)}, but the model "
                + (f"has {', '.join(map(repr, unknown))}" if unknown else "has no input_ids")
                + "; rename the inputs, or give arrays"
            )
        length = self.length
        for spec in inputs:
            if spec.dtype.name not in ("int64", "int32"):
                raise UsageError(
                    f"input {spec.name!r} takes {spec}; texts feed int64 or int32: give arrays"
                )
            if len(spec.shape) != 2 or spec.shape[0] not in (1, None):
                raise UsageError(
                    f"input {spec.name!r} takes {spec}; texts feed [1, length]: give arrays"
                )
            if None not in (length, spec.shape[1]) and length != spec.shape[1]:
                raise UsageError(
                    f"length {length} does not fit input {spec.name!r}, which takes {spec}"
                )
            length = length or spec.shape[1]
        return replace(self, length=length)

    def describe(self) -> dict[str, Any]:
        """Options in the order of application, as plain values for a report; never the path of the tokenizer."""
        if self.length is None:
            return {"tokenizer_sha256": self.tokenizer_sha256, "length_rule": "unchanged"}
        return {
            "tokenizer_sha256": self.tokenizer_sha256,
            "length": self.length,
            "length_rule": LENGTH_RULE,
        }
