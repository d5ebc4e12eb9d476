"""Events of a party in a federation over a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedbo._space import Value

WARNINGS = frozenset(
    {
        "account-unchecked",
        "away",
        "budget-spent",
        "coordinator-set-back",
        "misconduct",
        "refused",
        "retrying",
        "short-rounds",
        "taken-over",
        "upload-missed",
        "weak-protection",
        "went-on",
    }
)
"""Kinds of events that are logged as warnings."""


@dataclass(frozen=True)
class PartyEvent:
    """An event of an agent or a peer. The effects of the event are durable when it is reported."""

    kind: str
    """Agents and peers: ``waiting``, ``trial-started``, ``trial-ended``, ``refused``, ``misconduct``. Agents only: ``opened``,
    ``round``, ``upload-sent``, ``upload-missed``, ``upload-resent``, ``retrying``, ``short-rounds``, ``weak-protection``,
    ``budget-spent``, ``taken-over``, ``coordinator-set-back``, ``account-unchecked``. Peers only: ``listening``, ``went-on``,
    ``staying``, ``away``, ``back``, ``trusts``."""
    message: str
    """Human-readable description."""
    round: int | None = None
    """The round, if the event concerns one; 0 for initial points."""
    trial: int | None = None
    """Number of the trial, if the event concerns one."""
    params: Mapping[str, Value] | None = None
    """The point of the trial."""
    source: str | None = None
    """Source of the point: an initial point, the agent's own model, another agent's message or a release, with the trust in it."""
    value: float | None = None
    """The value of the trial, if it has one."""
