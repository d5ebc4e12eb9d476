"""Data of a study for experiment trackers: its identity, its stored trials, and its best values."""

from __future__ import annotations

from dataclasses import dataclass

from fedbo._errors import Error
from fedbo._study import Study
from fedbo._trial import Trial


@dataclass(frozen=True)
class Told:
    """A finished trial, as stored."""

    trial: Trial
    began_ms: int
    """Time when the study's first trial was asked for, in milliseconds since 1970. It distinguishes studies with the same name."""
    order: int
    """Position in the order of telling, starting at 0."""
    best: float | None
    """The best value up to and including this trial."""


def told(study: Study, trial: Trial) -> Told:
    """Read a finished trial with the data that a tracker needs."""
    trials = study.trials
    stored = trials[trial.number]
    first = trials[0].asked_at
    if stored._order is None or first is None:
        raise Error(f"trial {trial.number} of study {study.name!r} was not told yet")
    values = [
        each.value
        for each in trials
        if each.value is not None and each._order is not None and each._order <= stored._order
    ]
    better = min if study.direction == "minimize" else max
    return Told(stored, round(first.timestamp() * 1e3), stored._order, better(values, default=None))
