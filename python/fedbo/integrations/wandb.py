"""Logging of trials to Weights & Biases, while the study runs."""

from __future__ import annotations

import hashlib
from typing import Any

from fedbo._require import require
from fedbo._study import Study
from fedbo._trial import Trial
from fedbo.integrations._runs import told


class WandbCallback:
    """Logs every finished trial to Weights & Biases, with one run per study.

    A trial is a row with ``trial``, ``state``, ``value`` and ``best`` (if it has a value), and its parameters as ``params/NAME``. Its
    intermediate values are logged as ``reports/NUMBER`` by ``epoch``. A resumed study continues in the same run.

    ``project``
        Name of the project.
    ``options``
        Further arguments of ``wandb.init``, for instance ``entity`` or ``mode="offline"``.

    Raises ImportError if wandb is not installed. The run is finished at the end of a ``with`` block, by :meth:`finish`, or by wandb
    itself when the program ends::

        from fedbo.integrations.wandb import WandbCallback

        with WandbCallback("resnet", mode="offline") as callback:
            study.optimize(train, n_trials=50, callbacks=[callback])
    """

    def __init__(self, project: str, **options: Any) -> None:
        self._wandb = require("wandb", "wandb", "WandbCallback")
        self._project = project
        self._options = options
        self._run: Any = None
        self._of: tuple[str, int] | None = None

    def __call__(self, study: Study, trial: Trial) -> None:
        """Log a finished trial."""
        now = told(study, trial)
        trial, run = now.trial, self._study_run(study, now.began_ms)
        for epoch, value in trial.reports:
            run.log({"epoch": epoch, f"reports/{trial.number}": value})
        row: dict[str, object] = {"trial": trial.number, "state": trial.state}
        if trial.value is not None:
            row["value"] = trial.value
            row["best"] = now.best
        row.update({f"params/{name}": value for name, value in trial.params.items()})
        run.log(row)
        if trial.value is not None:
            run.summary["best"] = row["best"]
            run.summary["best_params"] = study.best_params

    def _study_run(self, study: Study, began: int) -> Any:
        if self._of != (study.name, began):
            self.finish()
            identity = hashlib.sha256(f"{study.name}\n{began}".encode()).hexdigest()[:16]
            config = {"direction": study.direction, "strategy": study.strategy, "seed": study.seed}
            options: dict[str, Any] = {"name": study.name, "id": identity, "resume": "allow", "config": config}
            self._run = self._wandb.init(project=self._project, **{**options, **self._options})
            self._run.define_metric("epoch", hidden=True)
            self._run.define_metric("reports/*", step_metric="epoch")
            for name in ("value", "best", "params/*"):
                self._run.define_metric(name, step_metric="trial")
            self._of = (study.name, began)
        return self._run

    def finish(self) -> None:
        """Finish the run. wandb uploads the remaining data."""
        if self._run is not None:
            self._run.finish()
            self._run, self._of = None, None

    def __enter__(self) -> WandbCallback:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
