"""Labels of the samples of tar shards, from the text of ``key.cls``, or from an entry of ``key.json``."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptq.core import remote
from ptq.core.errors import DataError
from ptq.core.wording import plural
from ptq.data.labels.class_names import CLASS_LIST
from ptq.data.labels.label_numbers import is_number
from ptq.data.labels.label_rows import LabelReader
from ptq.data.trees.tar_index import MAX_LABEL_BYTES, TarMember
from ptq.data.trees.tar_samples import LABEL_SUFFIXES, TarSample

_JSON_KEYS = ("label", "cls", "class", "labels")
_BOXES = frozenset(["bbox", "bboxes", "boxes", "objects", "segmentation"])
"""Keys of records whose labels are of boxes."""
_MAX = 10**9
"""Integers from here on are identifiers, not classes."""


class TarLabels:
    """Reads the labels of samples, and counts those that are not read.

    Labels are integers, or texts as in a file of labels: class numbers, or a name.
    """

    def __init__(self, *, has_class_list: bool) -> None:
        """``has_class_list`` says whether a shard has a list of class names."""
        self._has_class_list = has_class_list
        self._reader = LabelReader()
        self._unread: dict[str, list[str]] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was converted, and which labels were not read."""
        unread = (
            f"{plural(len(names), 'sample')} without label: {names[0]} {reason}"
            for reason, names in self._unread.items()
        )
        return (*sorted(self._reader.notes), *unread)

    def read(self, sample: TarSample, small: Mapping[str, bytes]) -> tuple[str | int, ...] | None:
        """The label of a sample; None without one.

        Args:
            sample: The sample.
            small: Contents of the members of its shard that may hold labels, by name.

        """
        unread: list[tuple[str, str]] = []
        for member in sample.labels:
            if member.name not in small:
                unread.append((f"is larger than {MAX_LABEL_BYTES >> 10} KiB", member.name))
                continue
            text = small[member.name].decode("utf-8-sig", "replace").strip()
            if member.name.lower().endswith(LABEL_SUFFIXES[0]):
                words = tuple(filter(None, re.split(r"[\s,;]+", text)))
                return words if all(map(is_number, words)) else (text,)
            label, reason = self._read_json(text, member)
            if label is not None:
                return label
            if reason:
                unread.append((reason, member.name))
        if not unread and sample.unused:
            unread.append(("is not named key.cls", sample.unused))
        for reason, name in unread[:1]:
            self._unread.setdefault(reason, []).append(name)
        return None

    def to_array(self, label: Collection[str | int], sample: TarSample) -> NDArray[Any] | None:
        """A label for the ``labels`` of an .npz; None if it is a text that nothing numbers, such as a caption."""
        texts = [entry for entry in label if isinstance(entry, str)]
        is_name = self._has_class_list and len(texts) == 1
        if label and not is_name and all(map(is_number, texts)):
            return np.array([[int(number) for number in label]])
        if self._has_class_list:
            return np.array(" ".join(texts))
        reason = f"holds a text, which is no class without {CLASS_LIST}"
        self._unread.setdefault(reason, []).append(sample.labels[0].name)
        return None

    def _read_json(self, text: str, member: TarMember) -> tuple[tuple[str | int, ...] | None, str]:
        """The label of a record, or why it has none that can be read; both empty if it has no label."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return None, "is no JSON"
        is_record = isinstance(record, dict)
        if is_record and not _BOXES.isdisjoint(record) and isinstance(record.get("labels"), list):
            return None, "has labels of boxes"
        entries = [record.get(key) for key in _JSON_KEYS] if is_record else []
        label = next((entry for entry in entries if entry is not None), None)
        if label is None or label == []:
            return None, ""
        if isinstance(label, str) or (isinstance(label, int) and abs(label) >= _MAX):
            return (str(label),), ""
        values = label if isinstance(label, list) else [label]
        if not all(isinstance(value, (bool, int, float)) for value in values):
            return None, "has a label that is neither a number nor a text"
        try:
            numbers = self._reader.read(
                label, f"{remote.redact(member.place)} member {member.name}"
            )
        except (
            DataError
        ):  # scores of quality, and the boxes of a detector, are labels of another kind
            return None, "has a label that is no class"
        return numbers or (-1,), ""
