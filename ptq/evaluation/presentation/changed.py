"""Section: samples whose answer changed, with both answers."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from ptq.core.wording import plural
from ptq.evaluation.answers import Answer, ChangedSample
from ptq.page.blocks import Exhibit, Gallery, Lines, PictureBox
from ptq.page.page import Section

_Pieces = tuple[tuple[str, str], ...]
_SMALL_FILE = b"\x89PNG"


def build_changed(
    changed: Sequence[ChangedSample],
    count: int | None,
    samples: int,
    *,
    classes: Mapping[str, int],
    names: tuple[str, str] = ("float", "int8"),
) -> Section:
    """The samples that were kept, as pictures where they are images.

    Args:
        changed: The samples that were kept.
        count: Number of all changed samples; None if they were not counted.
        samples: Number of all samples.
        classes: Class of each label name; empty if labels are numbers.
        names: What the two forms are called.
    """
    title = "Samples whose answer changed"
    if not count:
        text = f"no answer of {plural(samples, 'sample')} changed"
        return Section(
            "changed", title, [Lines((text,), "good")] if count == 0 else [], short="Changed"
        )
    by_class = {number: name for name, number in classes.items()}
    exhibits = tuple(_build_exhibit(sample, by_class, names) for sample in changed)
    title = f"{count} of {plural(samples, 'sample')} changed the answer"
    shown = (
        f"The {len(exhibits)} with the most changed decisions. " if len(exhibits) < count else ""
    )
    boxes = any(exhibit.boxes for exhibit in exhibits)
    legend = (("reference", names[0]), ("other", names[1])) if boxes else ()
    blocks = [Gallery(exhibits, legend)] if exhibits else []
    return Section("changed", title, blocks, f"{shown}{names[0]} against {names[1]}.", "Changed")


def _build_exhibit(
    sample: ChangedSample, by_class: Mapping[int, str], names: tuple[str, str]
) -> Exhibit:
    is_small = sample.picture.startswith(_SMALL_FILE)
    drawn = (sample.reference_picture, sample.other_picture)
    pictures = tuple((n, _encode(d)) for n, d in zip(names, drawn, strict=True) if d)
    answers: list[tuple[str, _Pieces]] = []
    if sample.labels:
        known = ", ".join(by_class.get(label, str(label)) for label in sample.labels)
        answers.append(("label", (("span", known),)))
    boxes: tuple[PictureBox, ...] = ()
    if sample.reference.boxes or sample.other.boxes:
        boxes = (*_list_boxes(sample.reference, "reference"), *_list_boxes(sample.other, "other"))
        pieces = [(("span", _count_boxes(answer)),) for answer in (sample.reference, sample.other)]
        answers += zip(names, pieces, strict=True)
    elif sample.overlaid:
        answers.append(("differ", (("span", plural(sample.changed, "pixel")),)))
    else:
        answers += zip(names, _compare(sample.reference, sample.other, by_class), strict=True)
    source = _encode(sample.picture) if sample.picture else ""
    return Exhibit(sample.name, source, is_small, boxes, tuple(answers), pictures, sample.overlaid)


def _encode(picture: bytes) -> str:
    """The address of a picture that holds its data."""
    kind = "png" if picture.startswith(_SMALL_FILE) else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def _list_boxes(answer: Answer, style: str) -> Iterator[PictureBox]:
    for box in answer.boxes:
        width, height = max(0.0, box.right - box.left), max(0.0, box.bottom - box.top)
        text = f"{box.label} {box.score:.2f}"
        yield PictureBox(style, box.left, box.top, round(width, 4), round(height, 4), text)


def _count_boxes(answer: Answer) -> str:
    counts = Counter(box.label for box in answer.boxes)
    return ", ".join(f"{n} × {label}" for label, n in counts.most_common()) or "no box"


def _compare(one: Answer, other: Answer, by_class: Mapping[int, str]) -> tuple[_Pieces, _Pieces]:
    """Both texts in pieces: what only the first has is ``del``, what only the other has is ``ins``."""
    if len(one.tokens) == len(other.tokens) == 1:
        texts = [_name_class(answer.tokens[0], by_class) for answer in (one, other)]
        return (("span", texts[0]),), (("span", texts[1]),)
    space = "" if one.joined else " "
    before, after = list[tuple[str, str]](), list[tuple[str, str]]()
    matcher = SequenceMatcher(a=one.tokens, b=other.tokens, autojunk=False)
    for kind, start, end, start_other, end_other in matcher.get_opcodes():
        same = kind == "equal"
        if end > start:
            before.append(("span" if same else "del", _join(one.tokens[start:end], space)))
        if end_other > start_other:
            text = _join(other.tokens[start_other:end_other], space)
            after.append(("span" if same else "ins", text))
    empty: _Pieces = (("span", "(empty)"),)
    return tuple(before) or empty, tuple(after) or empty


def _join(tokens: Sequence[str], space: str) -> str:
    """Tokens as text; white space alone becomes visible."""
    text = space.join(tokens)
    return text + space if text.strip() else "␣" * max(1, len(text))


def _name_class(token: str, by_class: Mapping[int, str]) -> str:
    return by_class.get(int(token), token) if token.isdecimal() else token
