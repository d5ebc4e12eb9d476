"""A study as a tracker sees it: its identity, a trial as it is stored, the best value up to it."""

from __future__ import annotations

from dataclasses import dataclass

from fedbo._errors import Error
from fedbo._study import Study
from fedbo._trial import Trial


@dataclass(frozen=True)
class Told:
    """A trial that was told, as it is stored."""

    trial: Trial
    began_ms: int
    """The time of asking for the study's first trial, in milliseconds since 1970: it tells studies of equal names apart."""
    order: int
    """Its place in the order of telling, from 0."""
    best: float | None
    """The best value up to it."""


def told(study: Study, trial: Trial) -> Told:
    """What a tracker is to know of a trial that was told."""
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
