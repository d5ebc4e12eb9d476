"""Trials in MLflow and Weights & Biases: callbacks and the program's own export."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import types
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fedbo
import pytest


def _study(folder: Path, **options: Any) -> fedbo.Study:
    space = {"x": fedbo.Float(-2.0, 2.0), "kind": ["a", "b"]}
    return fedbo.Study("it's", space, direction="minimize", storage=f"sqlite:{folder}/s.db", strategy="sobol", **options)


def _objective(trial: fedbo.Trial) -> float:
    if trial["kind"] == "b" and trial["x"] > 0.5:
        raise ValueError("too far")
    value = float(trial["x"]) ** 2
    for epoch in (1, 2, 3):
        trial.report(epoch, value + 1 / epoch)
    return value


EARLY = {"epochs": 3, "rule": "median"}


def _runs(client: Any, experiment: str) -> dict[str, Any]:
    """Return the runs of an experiment by the number of the trial, and the run of the study as ``study``."""
    found = client.get_experiment_by_name(experiment)
    runs = list(client.search_runs([found.experiment_id], max_results=1000))
    named = {run.data.tags.get("fedbo.trial", "study"): run for run in runs}
    assert len(named) == len(runs), "a run is doubled"
    return named


def _content(client: Any, experiment: str) -> dict[str, Any]:
    """Return all data of a study in MLflow, without the fields that MLflow adds."""
    content = {}
    for name, run in _runs(client, experiment).items():
        history = {
            key: [(m.step, m.value, m.timestamp) for m in client.get_metric_history(run.info.run_id, key)]
            for key in run.data.metrics
        }
        tags = {key: value for key, value in run.data.tags.items() if key.startswith("fedbo.")}
        content[name] = (run.info.run_name, run.info.status, run.data.params, tags, history)
    return content


def _check(client: Any, experiment: str, study: fedbo.Study) -> None:
    """Check that MLflow has exactly the data of the study."""
    runs = _runs(client, experiment)
    parent = runs.pop("study")
    assert parent.data.params == {"direction": "minimize", "strategy": "sobol", "seed": str(study.seed)}
    assert parent.data.metrics["best"] == study.best_value
    assert set(runs) == {str(trial.number) for trial in study.trials}
    for trial in study.trials:
        run = runs[str(trial.number)]
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.tags["fedbo.study"] == study.name
        assert run.data.tags["fedbo.state"] == trial.state
        assert float(run.data.params["x"]) == trial["x"] and run.data.params["kind"] == trial["kind"]
        assert run.info.status == ("FAILED" if trial.state == "failed" else "FINISHED")
        assert run.data.metrics.get("value") == trial.value
        reports = client.get_metric_history(run.info.run_id, "report")
        assert [(each.step, each.value) for each in reports] == list(trial.reports)
    values = client.get_metric_history(parent.info.run_id, "value")
    assert [(each.step, each.value) for each in values] == [
        (trial.number, trial.value) for trial in study.trials if trial.value is not None
    ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A local MLflow server. Skip the test if MLflow is installed without one."""
    pytest.importorskip("mlflow.server", reason="mlflow (not mlflow-skinny) is not installed", exc_type=ImportError)
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/m.db", "--artifacts-destination", str(folder / "files")]
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        for _ in range(1200):
            if process.poll() is not None:
                pytest.fail(f"mlflow server ended: {(folder / 'log').read_text()[-2000:]}")
            try:
                urllib.request.urlopen(f"{url}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail("mlflow server does not answer")
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


@pytest.fixture(params=["server", "store"])
def tracker(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A tracking URI: a server, or a local store."""
    pytest.importorskip("mlflow")
    if request.param == "server":
        return str(request.getfixturevalue("server"))
    pytest.importorskip("sqlalchemy")
    return f"sqlite:///{tmp_path}/m.db"


@pytest.mark.filterwarnings("default")
def test_a_study_is_logged_afterwards(tracker: str, tmp_path: Path) -> None:
    import mlflow
    from fedbo.integrations.mlflow import log_study

    study = _study(tmp_path, early_stopping=EARLY)
    with pytest.raises(fedbo.Error, match="no trial to log"):
        log_study(study, tracker)
    study.optimize(_objective, n_trials=6)
    client = mlflow.MlflowClient(tracker)
    assert log_study(study, tracker, "a lab & more") == 6
    _check(client, "a lab & more", study)
    before = _content(client, "a lab & more")
    study.optimize(_objective, n_trials=8)
    assert log_study(fedbo.Study.load(study.storage), tracker, "a lab & more") == 2
    _check(client, "a lab & more", study)
    after = _content(client, "a lab & more")
    assert {key: after[key] for key in before if key != "study"} == {
        key: before[key] for key in before if key != "study"
    }
    # A run that an interruption has left open is completed, without repeated metrics.
    client.update_run(_runs(client, "a lab & more")["3"].info.run_id, status="RUNNING")
    assert log_study(study, tracker, "a lab & more") == 1
    assert _content(client, "a lab & more") == after


@pytest.mark.filterwarnings("default")
def test_callback_and_function_make_the_same_runs(tracker: str, tmp_path: Path) -> None:
    import mlflow
    from fedbo.integrations.mlflow import MLflowCallback, log_study

    study = _study(tmp_path, early_stopping=EARLY)
    study.optimize(_objective, n_trials=5, callbacks=[MLflowCallback(tracker, "live")])
    client = mlflow.MlflowClient(tracker)
    _check(client, "live", study)
    live = _content(client, "live")
    assert log_study(study, tracker, "live") == 0
    assert log_study(study, tracker, "after") == 5
    for experiment in ("live", "after"):
        assert _content(client, experiment) == live


@pytest.mark.filterwarnings("default")
def test_all_outcomes_are_metrics(tracker: str, tmp_path: Path) -> None:
    import mlflow
    from fedbo.integrations.mlflow import log_study

    space = {"x": fedbo.Float(-2.0, 2.0)}
    bounds = {"ms": {"at_most": 1.0}}
    study = fedbo.Study("bounded", space, direction="minimize", constraints=bounds, strategy="sobol")
    study.optimize(lambda trial: {"value": trial["x"] ** 2, "ms": trial["x"]}, n_trials=4)
    log_study(study, tracker)
    client = mlflow.MlflowClient(tracker)
    runs = _runs(client, "fedbo")
    assert [runs[str(n)].data.metrics["ms"] for n in range(4)] == [trial.outcomes["ms"] for trial in study.trials]
    feasible = [trial.value for trial in study.trials if trial.feasible and trial.value is not None]
    assert runs["study"].data.metrics["best"] == min(feasible)


@pytest.mark.filterwarnings("default")
def test_a_callback_goes_on_in_a_local_store(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    from fedbo.integrations.mlflow import MLflowCallback

    uri = f"sqlite:///{tmp_path}/m.db"
    study = _study(tmp_path, early_stopping=EARLY)
    study.optimize(_objective, n_trials=3, callbacks=[MLflowCallback(uri)])
    study.optimize(_objective, n_trials=6, callbacks=[MLflowCallback(uri)])
    _check(mlflow.MlflowClient(uri), "fedbo", study)


@pytest.mark.filterwarnings("default")
def test_a_study_goes_on_while_its_tracker_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    from fedbo.integrations.mlflow import MLflowCallback

    def away(*_: object, **__: object) -> None:
        raise mlflow.exceptions.MlflowException("nobody answers")

    uri = f"sqlite:///{tmp_path}/m.db"
    study = _study(tmp_path)
    callback = MLflowCallback(uri)
    study.optimize(_objective, n_trials=2, callbacks=[callback], failures_max=0)
    with monkeypatch.context() as patched:
        patched.setattr(callback._client, "create_run", away)
        study.optimize(_objective, n_trials=4, callbacks=[callback], failures_max=0)
        assert "MLflow does not take trial 3" in caplog.text and "log_study" in caplog.text
    # An error at the first trial is raised, because the address of the server is probably wrong.
        first = MLflowCallback(f"sqlite:///{tmp_path}/other.db")
        patched.setattr(first._client, "create_run", away)
        with pytest.raises(mlflow.exceptions.MlflowException, match="nobody answers"):
            study.optimize(_objective, n_trials=5, callbacks=[first], failures_max=0)
    study.optimize(_objective, n_trials=6, callbacks=[callback], failures_max=0)
    assert set(_runs(mlflow.MlflowClient(uri), "fedbo")) == {"study", "0", "1", "5"}


class _Run:
    """A fake wandb run."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.rows: list[dict[str, Any]] = []
        self.metrics: dict[str, dict[str, Any]] = {}
        self.summary: dict[str, Any] = {}
        self.finished = False

    def define_metric(self, name: str, **options: Any) -> None:
        self.metrics[name] = options

    def log(self, row: dict[str, Any]) -> None:
        assert not self.finished
        self.rows.append(row)

    def finish(self) -> None:
        self.finished = True


def test_wandb_gets_a_row_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[_Run] = []

    def init(**options: Any) -> _Run:
        runs.append(_Run(options))
        return runs[-1]

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    from fedbo.integrations.wandb import WandbCallback

    study = _study(tmp_path, early_stopping=EARLY)
    with WandbCallback("nets", mode="offline") as callback:
        study.optimize(_objective, n_trials=4, callbacks=[callback])
    with WandbCallback("nets", mode="offline") as callback:
        study.optimize(_objective, n_trials=5, callbacks=[callback])
    first, second = runs
    assert first.finished and second.finished
    assert first.options["project"] == "nets" and first.options["mode"] == "offline"
    assert first.options["id"] == second.options["id"] and second.options["resume"] == "allow"
    rows = [row for run in runs for row in run.rows if "trial" in row]
    assert [row["trial"] for row in rows] == [0, 1, 2, 3, 4]
    best = None
    for row, trial in zip(rows, study.trials, strict=True):
        assert row["params/x"] == trial["x"] and row["state"] == trial.state
        assert row.get("value") == trial.value
        if trial.value is not None:
            best = trial.value if best is None else min(best, trial.value)
            assert row["best"] == best
    reported = [row for run in runs for row in run.rows if "epoch" in row]
    assert [(row["epoch"], row[f"reports/{t.number}"]) for t in study.trials for row in reported if f"reports/{t.number}" in row] == [
        pair for trial in study.trials for pair in trial.reports
    ]
    assert second.summary == {"best": study.best_value, "best_params": study.best_params}


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedbo.integrations.mlflow import MLflowCallback
    from fedbo.integrations.wandb import WandbCallback

    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="pip install mlflow-skinny"):
        MLflowCallback()
    with pytest.raises(ImportError, match="pip install wandb"):
        WandbCallback("nets")


def test_integrations_import_no_tracker() -> None:
    code = "import sys, fedbo, fedbo.integrations.mlflow, fedbo.integrations.wandb; print('mlflow' in sys.modules, 'wandb' in sys.modules)"
    path = os.pathsep.join(sys.path)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert ran.stdout.split() == ["False", "False"], ran.stderr


@pytest.mark.parametrize(
    ("uri", "before", "after"),
    [
        ("http://127.0.0.1:5000", None, "127.0.0.1"),
        ("http://localhost:5000", "example.org", "example.org,localhost"),
        ("http://localhost:5000", "localhost", "localhost"),
        ("https://mlflow.example.org", None, None),
        ("sqlite:///mlflow.db", "example.org", "example.org"),
    ],
)
def test_mlflow_on_this_machine_is_not_proxied(monkeypatch: pytest.MonkeyPatch, uri: str, before: str | None, after: str | None) -> None:
    from fedbo.integrations.mlflow import _reach_directly

    monkeypatch.delenv("no_proxy", raising=False)
    # Set the variable first, so that it is restored after the test.
    monkeypatch.setenv("NO_PROXY", before or "")
    if before is None:
        monkeypatch.delenv("NO_PROXY")
    _reach_directly(uri)
    assert os.environ.get("NO_PROXY") == after
