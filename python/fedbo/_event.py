"""What happens to a party of a federation over a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedbo._space import Value

WARNINGS = frozenset(
    {"away", "budget-spent", "misconduct", "refused", "retrying", "short-rounds", "upload-missed", "went-on"}
)
"""Kinds of events that are logged as warnings."""


@dataclass(frozen=True)
class PartyEvent:
    """Something that an agent or a peer has done or met; what it tells is durable."""

    kind: str
    """Of both ``waiting``, ``trial-started``, ``trial-ended``, ``refused``, ``misconduct``; of agents ``opened``, ``round``,
    ``upload-sent``, ``upload-missed``, ``upload-resent``, ``retrying``, ``short-rounds``, ``budget-spent``; of peers ``listening``,
    ``went-on``, ``staying``, ``away``, ``back``, ``trusts``."""
    message: str
    """The same in words."""
    round: int | None = None
    """The round that it is about; 0 for initial points."""
    trial: int | None = None
    """The number of the trial that it is about."""
    params: Mapping[str, Value] | None = None
    """The trial's point."""
    source: str | None = None
    """The source of the point: initial, the agent's own model, another's message, a release, with the trust in it."""
    value: float | None = None
    """The trial's value, if it has one."""
