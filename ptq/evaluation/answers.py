"""What a model answers on one sample, for readers: a class, boxes, a text, tokens; and samples where it changes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class AnswerBox:
    """A box; its sides are shares of the image, 0 to 1.

    Attributes:
        left: Left side.
        top: Upper side.
        right: Right side.
        bottom: Lower side.
        label: Its class.
        score: Its score, 0 to 1.
    """

    left: float
    top: float
    right: float
    bottom: float
    label: str
    score: float


@dataclass(frozen=True)
class Answer:
    """What a model answers on one sample.

    Attributes:
        tokens: The class, the characters or the tokens, in order; numbers of classes that have no name.
        boxes: The boxes of a detector, the highest score first.
        joined: Whether the tokens are characters of one text.
    """

    tokens: tuple[str, ...] = ()
    boxes: tuple[AnswerBox, ...] = ()
    joined: bool = False


@dataclass(frozen=True)
class ChangedSample:
    """A sample with another answer than the float model's.

    Attributes:
        name: File or row of the sample.
        labels: Acceptable classes; empty if the sample is not labelled.
        changed: Number of decisions that differ.
        reference: The answer of the float model, or of the old one.
        other: The answer of the other form.
        picture: PNG or JPEG file of a small picture; no bytes if the sample is no image. JSON leaves it out.
        reference_picture: A picture of the answer ``reference``: masks of the classes of pixels, or the neighbour; no
            bytes for none. JSON leaves it out.
        other_picture: The same of the answer ``other``.
        overlaid: Whether the pictures of the answers lie over ``picture``.
    """

    name: str
    labels: tuple[int, ...]
    changed: int
    reference: Answer
    other: Answer
    picture: bytes = field(default=b"", repr=False)
    reference_picture: bytes = field(default=b"", repr=False)
    other_picture: bytes = field(default=b"", repr=False)
    overlaid: bool = False
