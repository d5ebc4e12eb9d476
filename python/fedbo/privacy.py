"""The cost of privacy: planned before a study, and spent by one.

In each round every agent takes part with probability ``sampling_rate``, and noise of ``noise_multiplier`` times the largest norm of
an agent's vector is added. Neighbouring data sets are the same roster with one agent's vectors all zero. ``delta`` is by default
``min(1e-5, 1 / agents**2)``, so one of the two is needed. The accountant ``"pld"`` is the tightest; ``"renyi"`` and ``"moments"`` give
larger bounds; ``"fixed-size"`` is for samples of exactly ``floor(sampling_rate * agents)`` agents, and counts replacing an agent's
vectors instead of leaving them out.

>>> from fedbo import privacy
>>> privacy.epsilon(sampling_rate=0.25, noise_multiplier=2.0, rounds=50, delta=1e-5).epsilon < 5
True
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedbo._answer import answer

__all__ = [
    "Accountant",
    "Charge",
    "Cost",
    "Plan",
    "PlannedRate",
    "Statement",
    "epsilon",
    "largest_rate",
    "largest_rounds",
    "noise",
    "plan",
    "statement",
]

Accountant = Literal["pld", "renyi", "moments", "fixed-size"]
"""The method by which epsilon is bounded."""


@dataclass(frozen=True)
class Cost:
    """An upper bound on the privacy that releases cost, and what was released."""

    epsilon: float
    """The upper bound, at ``delta``."""
    delta: float
    """The probability with which the guarantee may fail."""
    adjacency: str
    """Which data sets are neighbours: ``zero-out`` or ``replace-one``."""
    accountant: str
    """The accountant that proved it."""
    mode: str
    """``default``, or ``paper``."""
    releases: int
    """Rounds that release."""
    sampling_rate: float
    """The probability that an agent takes part in a round."""
    noise_multiplier: float
    """The standard deviation of the noise over the largest norm of an agent's vector."""


@dataclass(frozen=True)
class PlannedRate:
    """A sampling rate with the noise that the budget asks for, and how loud that is beside the signal."""

    cost: Cost
    """Its cost, within the budget."""
    noise_norm: float
    """The norm of a release's noise, in units of the largest norm of a vector."""
    signal_norm: float
    """The largest norm of the signal in a region, in the same units."""
    noise_to_signal: float
    """Their ratio: far above 1, a release says nothing."""
    noise_to_signal_one_sum: float
    """The same of a release over all regions at once."""


@dataclass(frozen=True)
class Plan:
    """Sampling rates that are compared for a roster."""

    rates: tuple[PlannedRate, ...]
    """The rates."""
    recommended: PlannedRate
    """The one with the least noise beside the signal."""


@dataclass(frozen=True)
class Charge:
    """Releases of one kind that were charged."""

    releases: int
    """Their number."""
    sampling: str
    """``poisson`` or ``fixed-size``."""
    noise: str
    """``gaussian`` or ``discrete-gaussian``."""
    noise_multiplier: float
    """The standard deviation of the noise over the sensitivity."""


@dataclass(frozen=True)
class Statement:
    """Releases of a study, what they cost, and what remains of its budget."""

    study: str
    """The study."""
    epsilon: float
    """What was spent, an upper bound at ``delta``."""
    delta: float
    """The probability with which the guarantee may fail."""
    adjacency: str
    """Which data sets are neighbours."""
    accountant: str
    """The accountant that proved it."""
    mode: str
    """``default``, or ``paper``."""
    releases: int
    """Releases so far."""
    budget_epsilon: float
    """The budget."""
    remaining_epsilon: float
    """What remains of it."""
    further_releases: int | None
    """Further releases that it pays for, if that is known."""
    is_overdrawn: bool
    """True if more was spent than the budget has."""
    charges: tuple[Charge, ...]
    """The releases by kind."""
    config_sha256: str
    """The digest of the study's configuration."""
    head: str
    """The ledger's end, as ``SEQ:HASH``: compare it with one that was kept elsewhere."""
    participations: int | None = None
    """The releases that each agent may be in, and whose cost ``epsilon`` is, where they are fewer than all."""


def _cost(document: dict[str, Any]) -> Cost:
    return Cost(**{name: document[name] for name in Cost.__dataclass_fields__})


def epsilon(
    *,
    sampling_rate: float,
    noise_multiplier: float,
    rounds: int,
    delta: float | None = None,
    agents: int | None = None,
    accountant: Accountant = "pld",
    paper: bool = False,
) -> Cost:
    """The cost of a number of rounds. ``paper`` counts as DP-FTS-DE's paper: accountant ``moments``, delta ``agents**-1.1``."""
    chosen = None if paper and accountant == "pld" else accountant
    return _cost(
        answer(
            "privacy epsilon",
            {
                "sampling_rate": sampling_rate,
                "noise_multiplier": noise_multiplier,
                "rounds": rounds,
                "delta": delta,
                "agents": agents,
                "accountant": chosen,
                "paper": paper,
            },
        )
    )


def noise(
    *,
    epsilon: float,
    rounds: int,
    sampling_rate: float,
    delta: float | None = None,
    agents: int | None = None,
    accountant: Accountant = "pld",
) -> Cost:
    """The smallest noise multiplier with which a number of rounds keeps within a budget; the cost is that of this very number."""
    return _noise("noise", epsilon, delta, agents, accountant, rounds=rounds, sampling_rate=sampling_rate)


def largest_rounds(
    *,
    epsilon: float,
    sampling_rate: float,
    noise_multiplier: float,
    delta: float | None = None,
    agents: int | None = None,
    accountant: Accountant = "pld",
) -> Cost:
    """The largest number of rounds that a budget pays for, as ``releases``."""
    given = {"sampling_rate": sampling_rate, "noise_multiplier": noise_multiplier}
    return _noise("rounds", epsilon, delta, agents, accountant, **given)


def largest_rate(
    *,
    epsilon: float,
    rounds: int,
    noise_multiplier: float,
    delta: float | None = None,
    agents: int | None = None,
    accountant: Accountant = "pld",
) -> Cost:
    """The largest sampling rate that a budget pays for."""
    return _noise("rate", epsilon, delta, agents, accountant, rounds=rounds, noise_multiplier=noise_multiplier)


def _noise(
    solve: str, epsilon: float, delta: float | None, agents: int | None, accountant: str, **given: object
) -> Cost:
    given |= {"solve": solve, "epsilon": epsilon, "delta": delta, "agents": agents, "accountant": accountant}
    return _cost(answer("privacy noise", given))


def plan(
    *,
    agents: int,
    features: int,
    rounds: int,
    epsilon: float,
    regions: int = 1,
    delta: float | None = None,
    accountant: Accountant = "pld",
    sampling_rates: Sequence[float] = (),
) -> Plan:
    """Compare sampling rates for a roster: the noise that each needs, and how loud it is beside the signal.

    A release is the sum of the vectors of a region, of norm 1 at most, plus noise in each of ``features`` coordinates.
    """
    document = answer(
        "privacy plan",
        {
            "agents": agents,
            "regions": regions,
            "features": features,
            "rounds": rounds,
            "epsilon": epsilon,
            "delta": delta,
            "accountant": accountant,
            "sampling_rate": list(sampling_rates) or None,
        },
    )
    rates = tuple(
        PlannedRate(
            cost=_cost(each),
            noise_norm=each["noise_norm"],
            signal_norm=each["signal_norm"],
            noise_to_signal=each["noise_to_signal"],
            noise_to_signal_one_sum=each["noise_to_signal_one_sum"],
        )
        for each in document["rates"]
    )
    best = document["recommended_sampling_rate"]
    return Plan(rates, next(each for each in rates if each.cost.sampling_rate == best))


def statement(ledger: str | os.PathLike[str], *, study: str | None = None) -> Statement:
    """What a study has released, what that cost, and what remains of its budget.

    ``ledger`` is a results folder with ``ledger.db``, the ledger's file, or the database of a coordinator (``postgresql://..``, with
    the ``study``). The whole ledger is verified first.
    """
    document = answer("privacy statement", {"study": study}, ledger)
    fields = {name: document[name] for name in Statement.__dataclass_fields__ if name != "participations"}
    fields["participations"] = document.get("participations")
    fields["charges"] = tuple(
        Charge(each["releases"], each["sampling"], each["noise"], each["noise_multiplier"])
        for each in document["charges"]
    )
    return Statement(**fields)
