"""Trials: points that were asked for, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fedbo._errors import Error

if TYPE_CHECKING:
    import pandas as pd

State = Literal["waiting", "running", "complete", "failed", "stopped"]
"""The state of a trial."""


@dataclass(frozen=True)
class Trial:
    """A point that was asked for, and what became of it.

    ``trial["x"]`` is short for ``trial.params["x"]``.
    """

    number: int
    """Its place in the order of asking, from 0."""
    params: Mapping[str, Any]
    """Its point: a value for every parameter."""
    value: float | None = None
    """Its value, in the sign of the objective; None unless ``state`` is ``complete``."""
    outcomes: Mapping[str, float] = field(default_factory=dict)
    """All its numbers by name, in a study with constraints or several objectives; the single objective is called ``value``."""
    feasible: bool = False
    """True if it has a value and meets all constraints."""
    state: State = "running"
    """``waiting``, ``running``, ``complete``, ``failed`` or ``stopped`` (early, by its reports)."""
    source: str = ""
    """The source of its point: ``initial``, ``own``, ``enqueued``, ..."""
    message: str | None = None
    """Why it failed, or was stopped."""
    reports: tuple[tuple[int, float], ...] = ()
    """What it reported as it trained: pairs of an epoch, from 1, and the value after it."""
    asked_at: datetime | None = None
    """The time when it was asked for."""
    told_at: datetime | None = None
    """The time when its end was told."""
    seconds: float | None = None
    """Seconds from the start of its last evaluation to its end."""
    _order: int | None = field(default=None, repr=False, compare=False)
    """Its place in the order of telling, from 0."""
    _report: Callable[[int, float], bool] | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def report(self, epoch: int, value: float) -> bool:
        """Report the value after an epoch of training, counted from 1; return True if the training is to stop.

        The function then ends: what it returns is of no account. Reports are kept, and trainings stopped, where the study has
        ``early_stopping``; elsewhere every training goes on. NaN and infinities stop a training too: it has failed.
        """
        if self._report is None:
            raise Error(
                f"trial {self.number} cannot report: it was sent to another process, or read from its storage. Evaluate it in "
                "this process (n_jobs=1, or threads), or report by study.report(trial, epoch, value)"
            )
        if isinstance(value, (str, bytes, bool)):
            raise TypeError(f"trial {self.number} reports {value!r}, which is not a number")
        return self._report(epoch, float(value))

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
    fields: dict[str, Any], report: Callable[[int, float], bool] | None = None
) -> Trial:
    """The trial that the native module describes."""
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
        _report=report,
    )


class HasParams(Protocol):
    """A trial of a study or of a federation."""

    @property
    def params(self) -> Mapping[str, Any]:
        """Its point."""
        ...


def dataframe(
    trials: Sequence[HasParams],
    before: Iterable[str],
    parameters: Iterable[str],
    after: Iterable[str],
    outcomes: Iterable[str] = (),
) -> pd.DataFrame:
    """A row a trial: attributes, numbers in columns ``outcomes_NAME``, parameters in columns ``params_NAME``, further attributes."""
    import pandas as pd

    columns = {name: [getattr(trial, name) for trial in trials] for name in before}
    columns |= {f"outcomes_{name}": [getattr(trial, "outcomes", {}).get(name) for trial in trials] for name in outcomes}
    columns |= {f"params_{name}": [trial.params.get(name) for trial in trials] for name in parameters}
    columns |= {name: [getattr(trial, name) for trial in trials] for name in after}
    return pd.DataFrame(columns)
