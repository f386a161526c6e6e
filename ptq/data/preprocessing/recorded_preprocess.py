"""Preprocessing that an earlier run recorded: in the model's metadata, in statistics, or in a plan.

A record fills in the options that the user does not give. What the user gives wins, and the difference is named.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from ptq.core.errors import DataError, ModelError, UsageError
from ptq.core.preprocess_record import FEEDS, describe_differences
from ptq.core.preprocess_wording import describe_preprocessing
from ptq.core.record import Record
from ptq.data.preparation import Preparation
from ptq.data.preprocessing.audio_preprocess import AudioPreprocess
from ptq.data.preprocessing.exporter_metadata import read_exporter_record
from ptq.data.preprocessing.preparation_kinds import PREPARATIONS, AnyPreparation
from ptq.data.preprocessing.preprocess import Preprocess
from ptq.data.preprocessing.text_preprocess import TextPreprocess
from ptq.model.graph import Graph
from ptq.model.metadata import PREPROCESS, read_record

EXPORTER = "the exporter"


@dataclass(frozen=True)
class RecordedPreprocess:
    """A record of a preprocessing.

    Attributes:
        record: The record; see `ptq.core.preprocess_record`.
        origin: Where it stands, for messages: ``the model``, ``the statistics``, ``the plan`` or ``the exporter``.
    """

    record: Record
    origin: str

    def to_options(self) -> AnyPreparation | None:
        """The recorded options; None if arrays were fed as given.

        Of text there is the digest of the tokenizer, not its file.

        Raises:
            DataError: The record is damaged, or has options that this version does not know.
        """
        source = self.record.get("source")
        if source == FEEDS["source"]:
            return None
        kind = PREPARATIONS.get(source) if isinstance(source, str) else None
        if kind is None:
            raise self._error("it is neither of images nor of arrays, audio or text")
        options = {key: value for key, value in self.record.items() if key != "source"}
        rule = options.pop("length_rule", None) if "length_rule" in kind.ORDER else None
        known = {field.name for field in fields(kind)} - {"tokenizer"}
        unknown = sorted(options.keys() - known)
        if unknown:
            raise self._error(f"this version does not know the option {unknown[0]!r}")
        try:
            values: dict[str, Any] = {
                k: tuple(v) if isinstance(v, list) else v for k, v in options.items()
            }
            found = kind(**values)
            if isinstance(found, Preprocess):
                _require_types(found)
        # UsageError: the options refuse a value; the others: a value has a wrong type
        except (UsageError, TypeError, ValueError, OverflowError) as error:
            raise self._error(str(error)) from error
        if rule != found.describe().get("length_rule"):
            raise self._error(f"this version does not know the length rule {rule!r}")
        return found

    def describe_difference(self, applied: Preparation | None) -> str:
        """One line that names what the applied preprocessing has otherwise than the record; empty if nothing.

        Args:
            applied: The complete options of the samples; None for arrays, which are fed as given.
        """
        record = encode_preprocess(applied)
        if self.origin == EXPORTER:
            if applied is None:
                return ""  # it says how images are prepared, not that samples are images
            record = {key: value for key, value in record.items() if key in self.record}
        difference = describe_differences(record, self.record)
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

    def list_facts(self) -> list[tuple[str, str]]:
        """Rows of a report's page: what was applied, what of it was assumed, and what differs; none for arrays."""
        options = list_recorded_options(self.record)
        if not options:
            return []
        same = self.recorded_by and not self.difference
        recorded = f" (as recorded by {self.recorded_by})" if same else ""
        facts = [("preprocessing", describe_preprocessing(options) + recorded)]
        if self.record.get("assumed"):
            text = f"{self.record['assumed']}; if this is wrong, give --scale, --mean and --std"
            facts.append(("assumed", text))
        if self.difference:
            facts.append(("warning", self.difference))
        return facts


def read_preprocess(graph: Graph) -> RecordedPreprocess | None:
    """The preprocessing that a model's metadata record, readable or not; None if they record none.

    What ptq recorded comes first, then what the exporter wrote (`ptq.data.preprocessing.exporter_metadata`).
    """
    try:
        record = read_record(graph, PREPROCESS)
    except ModelError:
        record = {}  # refused where the options are needed: samples may be arrays
    if record is not None:
        return RecordedPreprocess(record, "the model")
    exported = read_exporter_record(graph.metadata)
    return None if exported is None else RecordedPreprocess(exported, EXPORTER)


def encode_preprocess(applied: Preparation | None) -> Record:
    """The record of a complete preprocessing; None is the record of arrays."""
    if applied is None:
        return FEEDS
    text = applied.assumed if isinstance(applied, Preprocess) else ""
    assumed = {"assumed": text} if text else {}
    return {"source": applied.SOURCE, **applied.describe(), **assumed}


def list_recorded_options(record: Record) -> dict[str, Any]:
    """The options of a record in the order of application, for a report; empty for arrays."""
    kind = PREPARATIONS.get(str(record.get("source")))
    return {} if kind is None else {name: record[name] for name in kind.ORDER if name in record}


def complete_preprocess(
    given: Preparation | None, recorded: RecordedPreprocess | None
) -> Preparation | None:
    """The options that the user gives, completed from a record.

    Mean and std are in scaled units, so another scale than the recorded one drops the recorded mean and std.

    Raises:
        DataError: The record is damaged, and the user gives no option at all.
    """
    if recorded is None:
        return given
    if given is None:
        return recorded.to_options()
    if given == Preprocess():
        known = recorded.to_options()
        return known if isinstance(known, Preprocess) else given
    try:
        found = recorded.to_options()
    except DataError:
        return given
    # a kind of samples at a time
    if isinstance(found, AudioPreprocess) and isinstance(given, AudioPreprocess):
        return found.override(given)
    if isinstance(found, TextPreprocess) and isinstance(given, TextPreprocess):
        return found.override(given)
    if not isinstance(found, Preprocess) or not isinstance(given, Preprocess):
        return given
    if given.scale not in (None, found.scale):
        found = replace(found, mean=None, std=None)
    ranged = any(value is not None for value in (given.scale, given.mean, given.std))
    return replace(found.override(given), assumed="" if ranged else found.assumed)


def _require_types(options: Preprocess) -> None:
    """Raise TypeError if a recorded option of images has a wrong type."""
    lengths = (
        *(options.size or ()),
        *(options.crop or ()),
        options.resize or 1,
        options.letterbox or 0,
    )
    if not all(type(length) is int for length in lengths):
        raise TypeError("size, crop, resize and letterbox are not whole numbers")
    if not isinstance(options.assumed, str):
        raise TypeError("assumed is not a text")
