"""Where labels come from, and which class each label is: for reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_MAX_SHOWN = 12


@dataclass(frozen=True)
class Labelling:
    """Origin of the labels of a set of samples.

    Attributes:
        source: Where they are, e.g. ``labels.csv`` or ``folder names in sorted order``; empty if there are none.
        classes: Label of each class name; empty if the source has numbers.
        notes: What was converted, and which files were not read.
    """

    source: str
    classes: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"labels: {self.describe()}"

    def describe(self) -> str:
        """One line, e.g. ``from labels.csv (2 classes: cat=0, dog=1); one-hot rows converted``."""
        origin = f"from {self.source}" if self.source else "none"
        if self.classes:
            ordered = sorted(self.classes.items(), key=lambda item: (item[1], item[0]))
            shown = [name if name == str(n) else f"{name}={n}" for name, n in ordered]
            if len(shown) > _MAX_SHOWN:
                shown[_MAX_SHOWN - 1 : -1] = ["…"]
            noun = "class" if len(ordered) == 1 else "classes"
            origin += f" ({len(ordered)} {noun}: {', '.join(shown)})"
        return "; ".join([origin, *self.notes])


WITH_SAMPLES = Labelling("the samples themselves")
"""Labels that a source from Python gives with each sample."""
