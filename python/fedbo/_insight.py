"""Results of a model fitted to all trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedbo._trial import Trial


@dataclass(frozen=True)
class Importance:
    """Importance of a parameter by two measures."""

    variance_share: float
    """Share of the variance of the model's mean over the space that remains if all other parameters are fixed, from 0 to 1. Shares of
    interacting parameters add up to more than 1."""
    relevance: float
    """Share computed only from the model's length scales. Relevances add up to 1."""


@dataclass(frozen=True)
class Insight:
    """Results of a model fitted to all trials, regardless of the strategy. ``fedbo best`` shows the same results.

    >>> import fedbo
    >>> study = fedbo.Study("line", {"x": fedbo.Float(0, 1), "y": fedbo.Float(0, 1)}, direction="minimize")
    >>> report = study.optimize(lambda params: params["x"], n_trials=12)
    >>> importance = study.insight().importance
    >>> importance["x"].variance_share > importance["y"].variance_share
    True
    """

    importance: Mapping[str, Importance]
    """Importance of each parameter, in the order of the space."""
    best_by_mean: Trial
    """The feasible trial with the best model mean. In a noisy study, it is a better choice than the trial with the best value, which
    is selected for favourable noise. In such a study, a trial is feasible if models of the constraints give it a probability of at
    least one half to satisfy all of them; if there is no such trial, this is the trial with the highest probability."""
    probability_feasible: float | None
    """Probability that this trial satisfies all constraints without noise. ``None`` unless the study is noisy and has constraints."""
    mean: float
    """Model mean at this trial."""
    std: float
    """Model standard deviation at this trial, without noise."""
    noise_std: float
    """Standard deviation of the noise, estimated by the model."""
    output_transform: str | None
    """Description of the transform that is applied to the values before the model is fitted."""
    n_values: int
    """Number of values used: all values if there are at most 2000, otherwise the best 1000 and 1000 evenly spread others."""


def from_native(found: dict[str, Any], trial: Callable[[dict[str, Any]], Trial]) -> Insight:
    """Convert the native module's description of an insight. ``trial`` converts that of a trial."""
    importance = {name: Importance(share, relevance) for name, share, relevance in found["importance"]}
    return Insight(**{**found, "importance": importance, "best_by_mean": trial(found["best_by_mean"])})
