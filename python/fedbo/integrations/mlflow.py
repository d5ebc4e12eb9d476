"""Logging of trials as MLflow runs, while the study runs or afterwards."""

from __future__ import annotations

import math
import os
import re
import urllib.parse
from collections.abc import Iterable
from typing import Any

from fedbo._errors import Error
from fedbo._executors import describe
from fedbo._objective import logger
from fedbo._require import require
from fedbo._study import Study
from fedbo._trial import Trial
from fedbo._worker import _is_loopback
from fedbo.integrations._runs import Told, told

_TAG_CHARS_MAX = 5000
_METRICS_MAX = 1000
_PARAMS_MAX = 100


class MLflowCallback:
    """Logs every finished trial as an MLflow run, nested in a run for the study.

    The run of a trial has its parameters, the metric ``value`` (if it has one), the metric ``report`` by epoch, and the tags
    ``fedbo.study``, ``fedbo.trial``, ``fedbo.state`` and ``fedbo.source``. The run of the study has the metrics ``value`` and ``best``
    by position in the order of telling. A resumed study continues in the same run.

    ``tracking_uri``
        Tracking URI. Defaults to MLflow's own setting (``MLFLOW_TRACKING_URI``).
    ``experiment``
        Name of the experiment, which is created if it does not exist. Defaults to ``"fedbo"``.

    If the server is unreachable at the first trial, an error is raised. Later failures are logged as warnings, and the study continues.

    Raises ImportError if neither mlflow nor mlflow-skinny is installed. Pass the callback to ``study.optimize(..., callbacks=[...])``::

        from fedbo.integrations.mlflow import MLflowCallback

        study.optimize(train, n_trials=50, callbacks=[MLflowCallback("http://127.0.0.1:5000", "resnet")])
    """

    def __init__(self, tracking_uri: str | None = None, experiment: str | None = None) -> None:
        mlflow = require("mlflow", "mlflow-skinny", "MLflowCallback")
        self._entities: Any = mlflow.entities
        self._exception: type[Exception] = mlflow.exceptions.MlflowException
        _reach_directly(tracking_uri if tracking_uri is not None else str(mlflow.get_tracking_uri()))
        self._client: Any = mlflow.MlflowClient(tracking_uri)
        self._experiment = experiment if experiment is not None else "fedbo"
        self._experiment_id: str | None = None
        self._studies: dict[tuple[str, int], str] = {}

    def __call__(self, study: Study, trial: Trial) -> None:
        """Log a finished trial."""
        now = told(study, trial)
        try:
            self._log(study, now)
        except self._exception as error:
            if not self._studies:
                raise
            logger.warning(
                "study %r: MLflow does not take trial %d: %s. The study continues; log_study(study) adds the missing data afterwards",
                study.name,
                trial.number,
                describe(error),
            )

    def _log(self, study: Study, now: Told) -> None:
        trial, began = now.trial, now.began_ms
        run_id = self._study_run(study, began)
        if self._find(study, began, trial.number) is None:
            self._log_trial(study, began, run_id, trial)
            if trial.value is not None and now.best is not None:
                self._client.log_batch(run_id, metrics=self._progress(now.order, trial, now.best))
        self._client.set_terminated(run_id, "FINISHED", _told_ms(trial))

    def _log_all(self, study: Study) -> int:
        """Log the finished trials that the experiment lacks, and return their number."""
        trials = study.trials
        first = trials[0].asked_at if trials else None
        if first is None:
            raise Error(f"study {study.name!r} has no trial to log yet")
        began = round(first.timestamp() * 1e3)
        run_id = self._study_run(study, began)
        runs = self._runs(study, began)
        told = sorted((trial for trial in trials if trial._order is not None), key=lambda trial: trial._order or 0)
        n_logged = 0
        for trial in told:
            known = runs.get(str(trial.number))
            if known is None or known.info.status == "RUNNING":
                self._log_trial(study, began, run_id, trial, None if known is None else str(known.info.run_id))
                n_logged += 1
        better = min if study.direction == "minimize" else max
        best: float | None = None
        metrics = []
        for trial in told:
            if trial.value is None:
                continue
            if trial.feasible:
                best = trial.value if best is None else better(best, trial.value)
            metrics += self._progress(trial._order or 0, trial, best)
        self._add_metrics(run_id, metrics, is_new=False)
        if told:
            self._client.set_terminated(run_id, "FINISHED", _told_ms(told[-1]))
        return n_logged

    def _progress(self, order: int, trial: Trial, best: float | None) -> list[Any]:
        """Return the metrics of a trial in the study's run."""
        metrics = [] if trial.value is None else [self._metric("value", trial.value, trial, order)]
        if best is not None:
            metrics.append(self._metric("best", best, trial, order))
        return metrics

    def _log_trial(self, study: Study, began: int, parent: str, trial: Trial, run_id: str | None = None) -> None:
        """Log a trial in a new run, or complete the run that an interrupted call left open."""
        is_new = run_id is None
        if run_id is None:
            start_ms = _told_ms(trial) - round((trial.seconds or 0.0) * 1e3)
            tags = {
                "mlflow.parentRunId": parent,
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
            run_id = str(created.info.run_id)
        keys = param_keys(trial.params)
        params = [self._entities.Param(keys[name], str(value)) for name, value in trial.params.items()]
        for first in range(0, len(params), _PARAMS_MAX):
            self._client.log_batch(run_id, params=params[first : first + _PARAMS_MAX])
        last = trial.reports[-1][0] if trial.reports else 0
        numbers = {"value": trial.value, **trial.outcomes}
        metrics = [self._metric("report", value, trial, epoch) for epoch, value in trial.reports]
        metrics += [self._metric(name, value, trial, last) for name, value in numbers.items() if value is not None and not math.isnan(value)]
        self._add_metrics(run_id, metrics, is_new=is_new)
        self._client.set_terminated(run_id, "FAILED" if trial.state == "failed" else "FINISHED", _told_ms(trial))

    def _add_metrics(self, run_id: str, metrics: list[Any], *, is_new: bool) -> None:
        """Log the metrics whose steps the run lacks, because MLflow would append repeated ones."""
        if not is_new:
            keys = {metric.key for metric in metrics}
            known = {(key, each.step) for key in keys for each in self._client.get_metric_history(run_id, key)}
            metrics = [metric for metric in metrics if (metric.key, metric.step) not in known]
        for first in range(0, len(metrics), _METRICS_MAX):
            self._client.log_batch(run_id, metrics=metrics[first : first + _METRICS_MAX])

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
        """Find the run of a trial, or of the study itself if ``trial`` is None."""
        name = "" if trial is None else str(trial)
        run = self._runs(study, began, trial).get(name)
        return None if run is None else str(run.info.run_id)

    def _runs(self, study: Study, began: int, trial: int | None = None) -> dict[str, Any]:
        """Return runs by the number of the trial. The key of the study's own run is empty."""
        wanted = f"tags.`fedbo.began` = '{began}'"
        if trial is not None:
            wanted += f" and tags.`fedbo.trial` = '{trial}'"
        found: dict[str, Any] = {}
        token = None
        while True:
            runs = self._client.search_runs([self._id()], wanted, page_token=token)
            for run in runs:
                if run.data.tags.get("fedbo.study") == study.name:
                    found[run.data.tags.get("fedbo.trial", "")] = run
            token = runs.token
            if not token:
                return found


def log_study(study: Study, tracking_uri: str | None = None, experiment: str | None = None) -> int:
    """Log the finished trials of a study that MLflow lacks, like :class:`MLflowCallback`, and return their number.

    The study may have been run by any program, and may be running (``Study.load("sqlite:study.db")``). Repeated calls add new trials, and
    complete runs that an interrupted call left open. ``tracking_uri`` and ``experiment`` are those of :class:`MLflowCallback`.

    Raises ImportError if neither mlflow nor mlflow-skinny is installed, and MLflow's exception if the server fails::

        from fedbo.integrations.mlflow import log_study

        log_study(fedbo.Study.load("sqlite:study.db"), "http://127.0.0.1:5000", "resnet")
    """
    return MLflowCallback(tracking_uri, experiment)._log_all(study)


def _reach_directly(uri: str) -> None:
    """Add a server on this machine to ``NO_PROXY``. Otherwise, MLflow's client would send credentials to the proxy in ``HTTP_PROXY``."""
    try:
        host = urllib.parse.urlsplit(uri).hostname
    except ValueError:
        return
    if host is None or not uri.startswith(("http://", "https://")) or not (_is_loopback(host) or host.endswith(".localhost")):
        return
    name = "no_proxy" if os.environ.get("no_proxy") else "NO_PROXY"
    listed = os.environ.get(name, "")
    if host not in listed.replace(" ", "").split(","):
        os.environ[name] = f"{listed},{host}" if listed else host


def _identity(study: Study, began: int) -> dict[str, str]:
    return {"fedbo.study": study.name, "fedbo.began": str(began)}


def param_keys(names: Iterable[str]) -> dict[str, str]:
    """Return a key for each parameter, with ``_`` for characters that MLflow does not allow: ``Temp __C_`` for ``Temp (°C)``."""
    keys: dict[str, str] = {}
    for place, name in enumerate(names):
        key = re.sub(r"[^\w./: -]", "_", name)
        keys[name] = f"{key}_{place}" if key in keys.values() else key
    return keys


def _told_ms(trial: Trial) -> int:
    told = trial.told_at or trial.asked_at
    return 0 if told is None else round(told.timestamp() * 1e3)
