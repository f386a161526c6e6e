"""Result of the check of a `.tflite` file in LiteRT."""

from __future__ import annotations

from dataclasses import dataclass

from ptq.core.wording import plural

_NAMES = {"reference": "reference kernels", "xnnpack": "default kernels (XNNPACK)"}


@dataclass(frozen=True)
class LitertKernelCheck:
    """LiteRT's kernels against one arithmetic of the executor.

    Attributes:
        kernels: ``reference``, or ``xnnpack``, the default ones.
        arithmetic: Name of the arithmetic.
        elements: Number of compared elements: of all integer tensors and outputs, or of outputs alone (``xnnpack``).
        differing: Number that differ.
        first: The first tensor that differs; empty if none does.
        float_islands: Number of float parts between integers, which LiteRT computes by its own float kernels.
        float_differing: Number of integers behind float parts that differ if a part reads LiteRT's own integers.
        float_largest: Largest of these differences, in steps.
        output_difference: Largest difference of a float output, as a share of its largest value.
        not_run: Why the kernels did not run; empty if they did.
    """

    kernels: str
    arithmetic: str
    elements: int = 0
    differing: int = 0
    first: str = ""
    float_islands: int = 0
    float_differing: int = 0
    float_largest: int = 0
    output_difference: float = 0.0
    not_run: str = ""

    @property
    def name(self) -> str:
        """The kernels in words."""
        return _NAMES[self.kernels]

    def __str__(self) -> str:
        if self.not_run:
            return f"{self.name} were not run: {self.not_run}"
        text = (
            f"{self.name}: {self.differing} of {self.elements} values differ from {self.arithmetic}"
        )
        if self.differing and self.float_islands:
            text += (
                f" ({plural(self.float_islands, 'float part')} between integers: float kernels differ in their "
                "last bits)"
            )
        if self.float_differing:
            text += (
                f"; behind float parts {plural(self.float_differing, 'value')} by at most "
                f"{plural(self.float_largest, 'step')}"
            )
        return text


@dataclass(frozen=True)
class LitertCheck:
    """The check of a `.tflite` file in LiteRT.

    Attributes:
        version: Version of ``ai-edge-litert``.
        samples: Number of samples.
        kernels: The result of each set of kernels.
    """

    version: str
    samples: int
    kernels: tuple[LitertKernelCheck, ...]

    def __str__(self) -> str:
        return (
            f"checked in LiteRT {self.version} on {plural(self.samples, 'sample')}: "
            + "; ".join(map(str, self.kernels))
        )
