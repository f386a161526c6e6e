"""Preprocessing that an earlier run recorded: in the model's metadata, in statistics, or in a plan.

A record fills in the options that the user does not give. What the user gives wins, and the difference is named.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from ptq.core.errors import DataError, ModelError, UsageError
from ptq.core.preprocess_record import FEEDS, describe_differences
from ptq.core.record import Record
from ptq.data.preprocess import ORDER_OF_APPLICATION, Preprocess
from ptq.model.graph import Graph
from ptq.model.metadata import PREPROCESS, read_record


@dataclass(frozen=True)
class RecordedPreprocess:
    """A record of a preprocessing.

    Attributes:
        record: The record; see `ptq.core.preprocess_record`.
        origin: Where it stands, for messages: ``the model``, ``the statistics`` or ``the plan``.
    """

    record: Record
    origin: str

    def to_options(self) -> Preprocess | None:
        """The recorded options from image to array; None if arrays were fed as given.

        Raises:
            DataError: The record is damaged, or has options that this version does not know.
        """
        if self.record.get("source") == FEEDS["source"]:
            return None
        options = {key: value for key, value in self.record.items() if key != "source"}
        unknown = sorted(options.keys() - {field.name for field in fields(Preprocess)})
        if self.record.get("source") != "images":
            raise self._error("it is neither of images nor of arrays")
        if unknown:
            raise self._error(f"this version does not know the option {unknown[0]!r}")
        try:
            values: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in options.items()
            }
            found = Preprocess(**values)
            lengths = (*(found.size or ()), *(found.crop or ()), found.resize or 1)
            if not all(type(length) is int for length in lengths):
                raise TypeError("size, crop and resize are not whole numbers")
            if not isinstance(found.assumed, str):
                raise TypeError("assumed is not a text")
        # UsageError: `Preprocess` refuses a value; the others: a value has a wrong type
        except (UsageError, TypeError, ValueError, OverflowError) as error:
            raise self._error(str(error)) from error
        return found

    def describe_difference(self, applied: Preprocess | None) -> str:
        """One line that names what the applied preprocessing has otherwise than the record; empty if nothing.

        Args:
            applied: The complete options of the samples; None for arrays, which are fed as given.
        """
        difference = describe_differences(encode_preprocess(applied), self.record)
        return f"preprocessing differs from {self.origin}: {difference}" if difference else ""

    def _error(self, reason: str) -> DataError:
        return DataError(
            f"the preprocessing that {self.origin} records cannot be used: {reason}; "
            "give all preprocessing options"
        )


@dataclass(frozen=True)
class AppliedPreprocess:
    """How the samples of a run became arrays.

    Attributes:
        record: What was applied; see `ptq.core.preprocess_record`.
        recorded_by: What records a preprocessing: ``the model``, ``the statistics`` or ``the plan``; empty if nothing
            does.
        difference: One line that names what was applied otherwise than recorded; empty if nothing.
    """

    record: Record
    recorded_by: str = ""
    difference: str = ""


def read_preprocess(graph: Graph) -> RecordedPreprocess | None:
    """The preprocessing that a model's metadata record, readable or not; None if they record none."""
    try:
        record = read_record(graph, PREPROCESS)
    except ModelError:
        record = {}  # refused where the options are needed: samples may be arrays
    return None if record is None else RecordedPreprocess(record, "the model")


def encode_preprocess(applied: Preprocess | None) -> Record:
    """The record of a complete preprocessing; None is the record of arrays."""
    if applied is None:
        return FEEDS
    assumed = {"assumed": applied.assumed} if applied.assumed else {}
    return {"source": "images", **applied.describe(), **assumed}


def list_recorded_options(record: Record) -> dict[str, Any]:
    """The options of a record in the order of application, for a report; empty for arrays."""
    return {name: record[name] for name in ORDER_OF_APPLICATION if name in record}


def complete_preprocess(
    given: Preprocess | None, recorded: RecordedPreprocess | None
) -> Preprocess | None:
    """The options that the user gives, completed from a record.

    Mean and std are in scaled units, so another scale than the recorded one drops the recorded mean and std.

    Raises:
        DataError: The record is damaged, and the user gives no option at all.
    """
    if recorded is None:
        return given
    if given in (None, Preprocess()):
        return recorded.to_options()
    assert given is not None
    try:
        found = recorded.to_options()
    except DataError:
        return given
    if found is None:
        return given
    if given.scale not in (None, found.scale):
        found = replace(found, mean=None, std=None)
    ranged = any(value is not None for value in (given.scale, given.mean, given.std))
    return replace(found.override(given), assumed="" if ranged else found.assumed)
