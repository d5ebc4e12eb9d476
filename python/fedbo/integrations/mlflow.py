"""Trials as runs of MLflow, while the study runs.

``fedbo export STUDY --to mlflow:URL`` writes the same runs afterwards, and adds to these what they lack.
"""

from __future__ import annotations

from typing import Any

from fedbo._executors import describe
from fedbo._objective import logger
from fedbo._require import require
from fedbo._study import Study
from fedbo._trial import Trial
from fedbo.integrations._runs import Told, told

_TAG_CHARS_MAX = 5000
_METRICS_MAX = 1000
_PARAMS_MAX = 100


class MLflowCallback:
    """Logs every trial that was told as a run of MLflow, below one run for the study.

    A trial's run has its parameters, the metric ``value`` (if it has one), the metric ``report`` by epoch, and the tags
    ``fedbo.study``, ``fedbo.trial``, ``fedbo.state`` and ``fedbo.source``; the study's run has ``value`` and ``best`` by place in
    the order of telling. A study that goes on later goes on in the same run.

    ``tracking_uri``
        The place of the runs; by default MLflow's own (``MLFLOW_TRACKING_URI``).
    ``experiment``
        The experiment, created if there is none; by default ``"fedbo"``.

    A server that cannot be reached for the first trial is an error; what fails later is a warning, and the study goes on.

    Raises ImportError if neither mlflow nor mlflow-skinny is installed. Needs ``study.optimize(..., callbacks=[...])``::

        from fedbo.integrations.mlflow import MLflowCallback

        study.optimize(train, n_trials=50, callbacks=[MLflowCallback("http://127.0.0.1:5000", "resnet")])
    """

    def __init__(self, tracking_uri: str | None = None, experiment: str | None = None) -> None:
        mlflow = require("mlflow", "mlflow-skinny", "MLflowCallback")
        self._entities: Any = mlflow.entities
        self._exception: type[Exception] = mlflow.exceptions.MlflowException
        self._client: Any = mlflow.MlflowClient(tracking_uri)
        self._experiment = experiment if experiment is not None else "fedbo"
        self._experiment_id: str | None = None
        self._studies: dict[tuple[str, int], str] = {}

    def __call__(self, study: Study, trial: Trial) -> None:
        """Log a trial that was told."""
        now = told(study, trial)
        try:
            self._log(study, now)
        except self._exception as error:
            if not self._studies:
                raise
            logger.warning(
                "study %r: MLflow does not take trial %d: %s. The study goes on; afterwards 'fedbo export STUDY --to mlflow:URL' adds "
                "what is missing there",
                study.name,
                trial.number,
                describe(error),
            )

    def _log(self, study: Study, now: Told) -> None:
        trial, began = now.trial, now.began_ms
        run_id = self._study_run(study, began)
        known = self._find(study, began, trial.number)
        if known is None:
            start_ms = _told_ms(trial) - round((trial.seconds or 0.0) * 1e3)
            tags = {
                "mlflow.parentRunId": run_id,
                **_identity(study, began),
                "fedbo.trial": str(trial.number),
                "fedbo.state": trial.state,
                "fedbo.source": trial.source,
            }
            if trial.message is not None:
                tags["fedbo.message"] = trial.message[:_TAG_CHARS_MAX]
            created = self._client.create_run(
                self._id(), start_time=start_ms, tags=tags, run_name=f"trial {trial.number}"
            )
            self._log_trial(created.info.run_id, trial)
        if known is None and trial.value is not None and now.best is not None:
            metrics = [
                self._metric("value", trial.value, trial, now.order),
                self._metric("best", now.best, trial, now.order),
            ]
            self._client.log_batch(run_id, metrics=metrics)
        self._client.set_terminated(run_id, "FINISHED", _told_ms(trial))

    def _log_trial(self, run_id: str, trial: Trial) -> None:
        params = [self._entities.Param(name, str(value)) for name, value in trial.params.items()]
        for first in range(0, len(params), _PARAMS_MAX):
            self._client.log_batch(run_id, params=params[first : first + _PARAMS_MAX])
        metrics = [self._metric("report", value, trial, epoch) for epoch, value in trial.reports]
        if trial.value is not None:
            last = trial.reports[-1][0] if trial.reports else 0
            metrics.append(self._metric("value", trial.value, trial, last))
        for first in range(0, len(metrics), _METRICS_MAX):
            self._client.log_batch(run_id, metrics=metrics[first : first + _METRICS_MAX])
        self._client.set_terminated(run_id, "FAILED" if trial.state == "failed" else "FINISHED", _told_ms(trial))

    def _metric(self, key: str, value: float, trial: Trial, step: int) -> Any:
        return self._entities.Metric(key, value, _told_ms(trial), step)

    def _id(self) -> str:
        known = self._experiment_id
        if known is None:
            found = self._client.get_experiment_by_name(self._experiment)
            known = self._client.create_experiment(self._experiment) if found is None else str(found.experiment_id)
            self._experiment_id = known
        return known

    def _study_run(self, study: Study, began: int) -> str:
        key = (study.name, began)
        if key not in self._studies:
            run_id = self._find(study, began, None)
            if run_id is None:
                created = self._client.create_run(
                    self._id(), start_time=began, tags=_identity(study, began), run_name=study.name
                )
                run_id = created.info.run_id
                for name in ("direction", "strategy", "seed"):
                    self._client.log_param(run_id, name, str(getattr(study, name)))
            self._studies[key] = run_id
        return self._studies[key]

    def _find(self, study: Study, began: int, trial: int | None) -> str | None:
        """The run of a trial, or of the study itself."""
        wanted = f"tags.`fedbo.began` = '{began}'"
        if trial is not None:
            wanted += f" and tags.`fedbo.trial` = '{trial}'"
        token = None
        while True:
            runs = self._client.search_runs([self._id()], wanted, page_token=token)
            for run in runs:
                tags = run.data.tags
                of_trial = tags.get("fedbo.trial")
                if tags.get("fedbo.study") == study.name and of_trial == (None if trial is None else str(trial)):
                    return str(run.info.run_id)
            token = runs.token
            if not token:
                return None


def _identity(study: Study, began: int) -> dict[str, str]:
    return {"fedbo.study": study.name, "fedbo.began": str(began)}


def _told_ms(trial: Trial) -> int:
    told = trial.told_at or trial.asked_at
    return 0 if told is None else round(told.timestamp() * 1e3)
