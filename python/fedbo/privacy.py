"""Privacy costs: plan them before a study, and read the spending of a study.

In each round, every agent takes part with probability ``sampling_rate``. Noise with a standard deviation of ``noise_multiplier`` times
the largest norm of an agent's vector is added. Neighbouring data sets have the same roster, with the vectors of one agent all zero.
Either ``delta`` or ``agents`` is required, because ``delta`` defaults to ``min(1e-5, 1 / agents**2)``. The accountant ``"pld"`` gives
the tightest bounds; those of ``"renyi"`` and ``"moments"`` are larger. ``"fixed-size"`` is for samples of exactly
``floor(sampling_rate * agents)`` agents, and its neighbouring data sets replace an agent's vectors instead of zeroing them.

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
"""Method that bounds epsilon."""


@dataclass(frozen=True)
class Cost:
    """A number of releases and an upper bound on their privacy cost."""

    epsilon: float
    """Upper bound on epsilon at ``delta``."""
    delta: float
    """Probability with which the guarantee may fail."""
    adjacency: str
    """Definition of neighbouring data sets: ``zero-out`` or ``replace-one``."""
    accountant: str
    """The accountant that proved the bound."""
    mode: str
    """``default`` or ``paper``."""
    releases: int
    """Number of rounds with a release."""
    sampling_rate: float
    """Probability that an agent takes part in a round."""
    noise_multiplier: float
    """Standard deviation of the noise, divided by the largest norm of an agent's vector."""


@dataclass(frozen=True)
class PlannedRate:
    """A sampling rate with the noise that the budget requires, and its ratio to the signal."""

    cost: Cost
    """Privacy cost, which is within the budget."""
    noise_norm: float
    """Norm of a release's noise, in units of the largest norm of a vector."""
    signal_norm: float
    """Largest norm of the signal in a region, in the same units."""
    noise_to_signal: float
    """Ratio of noise to signal. If it is far above 1, a release carries no information."""
    noise_to_signal_one_sum: float
    """Ratio for a release that sums over all regions."""


@dataclass(frozen=True)
class Plan:
    """Comparison of sampling rates for a roster."""

    rates: tuple[PlannedRate, ...]
    """The compared rates."""
    recommended: PlannedRate
    """The rate with the lowest ratio of noise to signal."""


@dataclass(frozen=True)
class Charge:
    """Charged releases of one kind."""

    releases: int
    """Number of releases."""
    sampling: str
    """``poisson`` or ``fixed-size``."""
    noise: str
    """``gaussian`` or ``discrete-gaussian``."""
    noise_multiplier: float
    """Standard deviation of the noise, divided by the sensitivity."""


@dataclass(frozen=True)
class Statement:
    """Releases of a study, their privacy cost, and its remaining budget."""

    study: str
    """Name of the study."""
    epsilon: float
    """Upper bound on the spending at ``delta``."""
    delta: float
    """Probability with which the guarantee may fail."""
    adjacency: str
    """Definition of neighbouring data sets."""
    accountant: str
    """The accountant that proved the bound."""
    mode: str
    """``default`` or ``paper``."""
    releases: int
    """Number of releases so far."""
    budget_epsilon: float
    """The budget."""
    remaining_epsilon: float
    """Remaining budget."""
    further_releases: int | None
    """Number of further releases that the budget allows; ``None`` if unknown."""
    is_overdrawn: bool
    """True if the spending exceeds the budget."""
    charges: tuple[Charge, ...]
    """The releases by kind."""
    config_sha256: str
    """SHA-256 digest of the study's configuration."""
    head: str
    """Head of the ledger, as ``SEQ:HASH``, for comparison with a copy kept elsewhere."""
    participations: int | None = None
    """Maximum number of releases per agent, if this is less than the total. ``epsilon`` is then the cost of this number of releases."""


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
    """Compute the cost of a number of rounds.

    With ``paper``, the cost is computed as in the DP-FTS-DE paper: accountant ``moments``, delta ``agents**-1.1``.
    """
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
    """Find the smallest noise multiplier that keeps a number of rounds within a budget. Return the cost with this multiplier."""
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
    """Find the largest number of rounds that a budget allows. The field ``releases`` of the result is this number."""
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
    """Find the largest sampling rate that a budget allows."""
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
    """Compare sampling rates for a roster: the noise that each requires, and its ratio to the signal.

    A release is the sum of a region's vectors, each with a norm of at most 1, plus noise in each of ``features`` coordinates.
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
    """Read the releases of a study, their privacy cost and the remaining budget. The whole ledger is verified first.

    ``ledger`` is a results folder with ``ledger.db``, the ledger file itself, or the database of a coordinator
    (``postgresql://..``), which requires ``study``.
    """
    document = answer("privacy statement", {"study": study}, ledger)
    fields = {name: document[name] for name in Statement.__dataclass_fields__ if name != "participations"}
    fields["participations"] = document.get("participations")
    fields["charges"] = tuple(
        Charge(each["releases"], each["sampling"], each["noise"], each["noise_multiplier"])
        for each in document["charges"]
    )
    return Statement(**fields)
