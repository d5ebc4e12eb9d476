"""Pictures of a study."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from fedbo import _fedbo
from fedbo._errors import DefinitionError, Error
from fedbo._require import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedbo._study import Study

Backend = Literal["fedbo", "matplotlib"]
"""The plotting backend: fedbo itself, or matplotlib, which must be installed."""


class Picture:
    """A picture of a study, as written by ``fedbo plot``. Notebooks display it.

    >>> import fedbo
    >>> study = fedbo.Study("parabola", {"x": fedbo.Float(-2.0, 2.0)}, direction="minimize")
    >>> report = study.optimize(lambda params: params["x"] ** 2, n_trials=5)
    >>> study.plot.history().svg[:4]
    '<svg'
    """

    def __init__(self, native: _fedbo.Picture) -> None:
        self._native = native

    @property
    def svg(self) -> str:
        """The picture as SVG text."""
        return self._native.svg()

    @property
    def png(self) -> bytes:
        """The picture as PNG bytes, at twice the resolution of a screen."""
        return self._native.png()

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to a file with the extension ``.svg`` or ``.png``, and return the path."""
        path = Path(path)
        match path.suffix.lower():
            case ".svg":
                content = self.svg.encode()
            case ".png":
                content = self.png
            case _:
                raise DefinitionError(f"{path}: a picture is saved as .svg or .png")
        try:
            path.write_bytes(content)
        except OSError as error:
            raise Error(f"{path}: the picture cannot be written: {error.strerror}") from error
        return path

    def _repr_svg_(self) -> str:
        return self.svg


class Plots:
    """Pictures of a study: ``study.plot``.

    Raises :class:`fedbo.Error` if there is nothing to draw yet.
    """

    def __init__(self, study: Study) -> None:
        self._study = study

    @overload
    def history(self, backend: Literal["fedbo"] = "fedbo") -> Picture: ...
    @overload
    def history(self, backend: Literal["matplotlib"]) -> Figure: ...
    def history(self, backend: Backend = "fedbo") -> Picture | Figure:
        """Plot the value of each trial and the best value so far."""
        return self._matplotlib_history() if _is_matplotlib(backend) else self._draw("history")

    def slices(self) -> Picture:
        """Plot the values of the trials against each parameter."""
        return self._draw("slices")

    @overload
    def importance(self, backend: Literal["fedbo"] = "fedbo") -> Picture: ...
    @overload
    def importance(self, backend: Literal["matplotlib"]) -> Figure: ...
    def importance(self, backend: Backend = "fedbo") -> Picture | Figure:
        """Plot the importance of each parameter by two measures; see :class:`fedbo.Importance`."""
        return self._matplotlib_importance() if _is_matplotlib(backend) else self._draw("importance")

    def learning_curves(self) -> Picture:
        """Plot the values reported during training, epoch by epoch. Only for studies with ``early_stopping``."""
        return self._draw("learning_curves")

    def transfer(self) -> Picture:
        """Plot the weights of old studies, query by query. Only for studies with ``old_studies``."""
        return self._draw("transfer")

    def pareto(self) -> Picture:
        """Plot several objectives against each other, with the Pareto front. Use it instead of history, slices and importance."""
        return self._draw("pareto")

    def _draw(self, name: str) -> Picture:
        return Picture(self._study._native.picture(name))

    def _matplotlib_history(self) -> Figure:
        if self._study.objectives:
            raise Error(f"study {self._study.name!r} has several objectives: use plot.pareto()")
        figure, axes = _figure(self._study.name)
        told = [trial for trial in self._study.trials if trial.state in ("complete", "failed")]
        if not told:
            raise Error(f"study {self._study.name!r} has no finished trial to draw yet")
        told.sort(key=lambda trial: trial._order if trial._order is not None else trial.number)
        better = min if self._study.direction == "minimize" else max
        places: list[int] = []
        steps: list[int] = []
        values: list[float] = []
        best: list[float] = []
        for place, trial in enumerate(told):
            if trial.value is not None:
                places.append(place)
                values.append(trial.value)
                if trial.feasible:
                    steps.append(place)
                    best.append(trial.value if not best else better(best[-1], trial.value))
        axes.scatter(places, values, s=14, label="trial")
        axes.step(steps, best, where="post", label="best so far")
        for place, trial in enumerate(told):
            if trial.value is None:
                axes.axvline(place, color="0.8", linewidth=1, zorder=0)
        axes.set_xlabel("trials in the order of telling (grey: failed)")
        axes.set_ylabel("value (smaller is better)" if better is min else "value (larger is better)")
        axes.legend()
        return figure

    def _matplotlib_importance(self) -> Figure:
        found = self._study.insight().importance
        figure, axes = _figure(self._study.name)
        names = sorted(found, key=lambda name: found[name].variance_share)
        places = range(len(names))
        axes.barh([place + 0.2 for place in places], [found[n].variance_share for n in names], 0.4, label="share of variance")
        axes.barh([place - 0.2 for place in places], [found[n].relevance for n in names], 0.4, label="relevance")
        axes.set_yticks(list(places), names)
        axes.set_xlim(0, 1)
        axes.legend()
        return figure


def _is_matplotlib(backend: str) -> bool:
    if backend not in ("fedbo", "matplotlib"):
        raise DefinitionError(f'backend = {backend!r}, expected "fedbo" or "matplotlib"')
    return backend == "matplotlib"


def _figure(title: str) -> tuple[Figure, Any]:
    figure = require("matplotlib.figure", "matplotlib", 'backend="matplotlib"').Figure(layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    return figure, axes
