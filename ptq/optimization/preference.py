"""How much speed and size may be spent on accuracy: the rule by which nodes stay float without being asked for.

Spend up to 3 % of the time of the all-int8 model if that at least halves the error. While it changes more than 1 % of
the decisions on calibration samples, go on to 15 %, as long as each step removes a quarter of what is left. Where
samples hold different numbers of decisions, like boxes, float nodes for decisions must save some; above 5 % of the
time, 1 % of them. So must the most expensive set of nodes beside the cheapest. Float nodes take back at most half of
the bytes that int8 saves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

PreferenceName = Literal["accuracy", "balanced", "speed"]
DECISION_FLOOR = 0.01
"""The share of decisions that may change before more speed is spent."""
ERROR_FLOOR = 0.01
"""The same without decisions: error energy as a share of the output's energy, 20 dB."""


@dataclass(frozen=True)
class Preference:
    """The price that may be paid.

    Attributes:
        spend: The share of the all-int8 model's time that may be spent in any case.
        spend_for_decisions: The same while decisions change; one after another until they do not.
        least_gain: The share of the remaining error that a set of nodes must remove to stay float.
        least_gain_for_decisions: The same while decisions change.
        required_error: The share of the all-int8 error that may remain at most; else all nodes stay int8.
        required_error_for_decisions: The same while decisions change.
        share_of_saving: The share of the bytes saved by int8 that float nodes may take back.
    """

    spend: float
    spend_for_decisions: tuple[float, ...]
    least_gain: float
    least_gain_for_decisions: float
    required_error: float
    required_error_for_decisions: float
    share_of_saving: float

    def list_limits(self, changed: float | None) -> tuple[float, ...]:
        """The shares of the time that may be spent; ``changed``: the share of decisions, None if few enough."""
        return (self.spend,) if changed is None else self.spend_for_decisions

    def find_least_gain(self, changed: float | None) -> float:
        """The least gain."""
        return self.least_gain if changed is None else self.least_gain_for_decisions

    def find_required_error(self, changed: float | None) -> float:
        """The error that may remain at most, as a share of what is left without this time."""
        return self.required_error if changed is None else self.required_error_for_decisions


DEFAULT_PREFERENCE: Final = "balanced"
PREFERENCES: Mapping[PreferenceName, Preference] = {
    "speed": Preference(0.0, (), 1.0, 1.0, 0.0, 0.0, 0.0),
    "balanced": Preference(0.03, (0.03, 0.06, 0.1, 0.15), 1 / 16, 1 / 32, 1 / 2, 3 / 4, 1 / 2),
    "accuracy": Preference(0.15, (0.15, 0.2, 0.25, 0.3), 1 / 32, 1 / 64, 4 / 5, 4 / 5, 3 / 4),
}
