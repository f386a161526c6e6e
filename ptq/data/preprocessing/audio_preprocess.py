"""Preprocessing options from a WAV file to an array, completed from the model's input.

decode → mean of the channels → resample → cut at the center, or zeros at the end → float32 in −1 … 1
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ptq.core.errors import UsageError
from ptq.core.option_checks import refuse_unknown_fields, require_count
from ptq.data.input_spec import InputSpec

LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000
"""Bounds of a sample rate in Hz. Telephones have 8000, the fastest converters 768000."""
LENGTH_RULE = "cut at the center or zeros at the end"


@refuse_unknown_fields
@dataclass(frozen=True)
class AudioPreprocess:
    """Options from a WAV file to an array.

    Attributes:
        sample_rate: Sample rate that the model was trained on, in Hz. A file of another rate is resampled.
        length: Number of values of each sample. A longer signal is cut at the center, a shorter one gets zeros at
            the end. None for the fixed length of the model's input; if that is dynamic, each signal keeps its length.
    """

    SOURCE: ClassVar[str] = "audio"
    ORDER: ClassVar[tuple[str, ...]] = ("sample_rate", "length", "length_rule")

    sample_rate: int
    length: int | None = None

    def __post_init__(self) -> None:
        rate = require_count("sample_rate", self.sample_rate, least=LOWEST_RATE, most=HIGHEST_RATE)
        object.__setattr__(self, "sample_rate", rate)
        if self.length is not None:
            object.__setattr__(self, "length", require_count("length", self.length, least=1))

    def override(self, given: AudioPreprocess) -> AudioPreprocess:
        """These options, with those of ``given`` that are not None in place of the own ones."""
        return replace(given, length=given.length or self.length)

    def resolved(self, spec: InputSpec) -> AudioPreprocess:
        """The same options, with the length of the model's input.

        Raises:
            UsageError: The input does not take a signal of this length, or no signal at all.
        """
        if spec.dtype.kind != "f":
            raise UsageError(
                f"input {spec.name!r} takes {spec}; audio feeds float inputs: give arrays"
            )
        *leading, length = spec.shape or (None,)
        if len(spec.shape) not in (1, 2, 3) or any(axis not in (1, None) for axis in leading):
            raise UsageError(
                f"input {spec.name!r} takes {spec}; audio feeds [N], [1, N] or [1, 1, N]: give arrays"
            )
        if self.length is not None and length not in (None, self.length):
            raise UsageError(
                f"length {self.length} does not fit input {spec.name!r}, which takes {spec}"
            )
        return replace(self, length=self.length or length)

    def describe(self) -> dict[str, Any]:
        """Options in the order of application, as plain values for a report."""
        if self.length is None:
            return {"sample_rate": self.sample_rate, "length_rule": "unchanged"}
        return {
            "sample_rate": self.sample_rate,
            "length": self.length,
            "length_rule": LENGTH_RULE,
        }
