"""Trials: proposed points and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fedbo._errors import Error

if TYPE_CHECKING:
    import pandas as pd

State = Literal["waiting", "running", "complete", "failed", "stopped", "discarded"]
"""The state of a trial."""


@dataclass(frozen=True)
class Trial:
    """A proposed point and its result.

    ``trial["x"]`` is shorthand for ``trial.params["x"]``.
    """

    number: int
    """Number of the trial in the order of asking, starting at 0."""
    params: Mapping[str, Any]
    """The point: a value for every parameter."""
    value: float | None = None
    """The value of the objective, with its original sign; ``None`` unless ``state`` is ``complete`` and it was measured."""
    outcomes: Mapping[str, float] = field(default_factory=dict)
    """All outcomes by name, in a study with constraints or several objectives; a single objective is named ``value``.
    An outcome that was not measured is NaN."""
    feasible: bool = False
    """True if the trial is known to satisfy all constraints."""
    state: State = "running"
    """``waiting``, ``running``, ``complete``, ``failed``, ``stopped`` (stopped early because of its reports), or ``discarded``."""
    source: str = ""
    """Source of the point: ``initial``, ``own``, ``enqueued``, ..."""
    message: str | None = None
    """Reason for the failure or the stop."""
    reports: tuple[tuple[int, float], ...] = ()
    """Intermediate values reported during training: pairs of an epoch, counted from 1, and the value after this epoch."""
    asked_at: datetime | None = None
    """Time when the trial was asked for."""
    told_at: datetime | None = None
    """Time when the result was told."""
    seconds: float | None = None
    """Duration of the last evaluation in seconds."""
    _order: int | None = field(default=None, repr=False, compare=False)
    """Position in the order of telling, starting at 0."""
    _study: str | None = field(default=None, repr=False, compare=False)
    """Id of the study; ``None`` if unknown."""
    _report: Callable[[int, float], bool] | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def report(self, epoch: int, value: float) -> bool:
        """Report the value after an epoch of training, counted from 1. Return True if the training should stop.

        The function should then return; its return value is ignored. In a study with ``early_stopping``, reports are stored and may
        stop the training early; a report of NaN or infinity stops the training, and the trial fails. In other studies, training
        under :meth:`Study.optimize` always continues, and a report of a trial from :meth:`Study.ask` raises :class:`Error`.
        """
        if self._report is None:
            raise Error(
                f"trial {self.number} cannot report: it was sent to another process, or read from its storage. Evaluate it in "
                "this process (n_jobs=1, or threads), or report by study.report(trial, epoch, value)"
            )
        return self._report(epoch, value)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_report": None}

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("trial", self.number), ("state", self.state)]
        numbers: Mapping[str, object] = self.outcomes or {"value": self.value}
        rows += [*numbers.items(), *self.params.items()]
        cells = (f"<tr><th>{escape(str(a))}</th><td>{escape(str(b))}</td></tr>" for a, b in rows)
        return f"<table>{''.join(cells)}</table>"


def _time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1e3, UTC)


def from_native(
    fields: dict[str, Any], report: Callable[[int, float], bool] | None = None, study: str | None = None
) -> Trial:
    """Convert the native module's description of a trial."""
    return Trial(
        number=fields["number"],
        params=fields["params"],
        value=fields["value"],
        outcomes=fields["outcomes"],
        feasible=fields["feasible"],
        state=fields["state"],
        source=fields["source"],
        message=fields["message"],
        reports=tuple(fields["reports"]),
        asked_at=_time(fields["asked_at_ms"]),
        told_at=_time(fields["told_at_ms"]),
        seconds=fields["seconds"],
        _order=fields["told_order"],
        _study=study,
        _report=report,
    )


class HasParams(Protocol):
    """A trial of a study or a federation."""

    @property
    def params(self) -> Mapping[str, Any]:
        """The point."""
        ...


def dataframe(
    trials: Sequence[HasParams],
    before: Iterable[str],
    parameters: Iterable[str],
    after: Iterable[str],
    outcomes: Iterable[str] = (),
) -> pd.DataFrame:
    """Return a DataFrame with one row per trial: attributes, outcomes in columns ``outcomes_NAME``, parameters in columns ``params_NAME``,
    further attributes."""
    import pandas as pd

    columns = {name: [getattr(trial, name) for trial in trials] for name in before}
    columns |= {f"outcomes_{name}": [getattr(trial, "outcomes", {}).get(name) for trial in trials] for name in outcomes}
    columns |= {f"params_{name}": [trial.params.get(name) for trial in trials] for name in parameters}
    columns |= {name: [getattr(trial, name) for trial in trials] for name in after}
    return pd.DataFrame(columns)
