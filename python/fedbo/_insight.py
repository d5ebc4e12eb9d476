"""Findings of a model of all trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedbo import _trial
from fedbo._trial import Trial


@dataclass(frozen=True)
class Importance:
    """The importance of a parameter, by two measures."""

    variance_share: float
    """Share of the model's variance over the space that would vanish if all other parameters were known, from 0 to 1; shares add
    up to more than 1 where parameters act together."""
    relevance: float
    """Its share by the model's length scales alone; relevances add up to 1."""


@dataclass(frozen=True)
class Insight:
    """The findings of a model that is fitted to all trials, whatever the study's strategy: what ``fedbo best`` shows.

    >>> import fedbo
    >>> study = fedbo.Study("line", {"x": fedbo.Float(0, 1), "y": fedbo.Float(0, 1)}, direction="minimize")
    >>> report = study.optimize(lambda params: params["x"], n_trials=12)
    >>> importance = study.insight().importance
    >>> importance["x"].variance_share > importance["y"].variance_share
    True
    """

    importance: Mapping[str, Importance]
    """The importance of each parameter, in the space's order."""
    best_by_mean: Trial
    """The feasible trial that the model expects most of; in a noisy study a better guess than the best value, which is a lucky one. There a trial is
    feasible if it meets all constraints with a probability of at least one half, by models of them; if none does, this is the most probable one."""
    probability_feasible: float | None
    """The probability that this trial meets all constraints without noise; of a noisy study with constraints."""
    mean: float
    """The value that the model expects there."""
    std: float
    """Its standard deviation, without noise."""
    noise_std: float
    """The standard deviation of the noise that the model sees."""
    output_transform: str | None
    """The transform of the values before they are modelled, in words."""
    n_values: int
    """Number of values that it rests on: all up to 2000, else the best 1000 and an even spread of the others."""


def from_native(found: dict[str, Any]) -> Insight:
    """The insight that the native module describes."""
    importance = {name: Importance(share, relevance) for name, share, relevance in found["importance"]}
    best = _trial.from_native(found["best_by_mean"])
    return Insight(**{**found, "importance": importance, "best_by_mean": best})
