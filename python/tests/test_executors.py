"""Studies whose trials are evaluated by Dask, submitit and Ray, with killed workers."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fedbo
from fedbo import _executors

# For the reasons, see test_ray.py.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")

pytestmark = pytest.mark.filterwarnings("default")  # for warnings of the engines

ENGINES = ["dask", "submitit", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.timeout(600)])]


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a Dask cluster with two processes that no other test kills."""
    distributed = pytest.importorskip("distributed")
    folder = str(tmp_path_factory.mktemp("dask"))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=folder, silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.tune")
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture
def executor(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The executor of the engine for which the test is parametrized."""
    if request.param == "dask":
        return request.getfixturevalue("client").get_executor()
    if request.param == "submitit":
        return local_jobs(tmp_path, request.getfixturevalue("monkeypatch"))
    request.getfixturevalue("ray")
    from fedbo.integrations.ray import RayExecutor

    return RayExecutor()


def local_jobs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    submitit = pytest.importorskip("submitit")
    # By default, submitit polls for 15 s for the result of an ended job, because shared file systems are slow. Local files are not.
    monkeypatch.setattr(submitit.Job, "_results_timeout_s", 0)
    executor = submitit.AutoExecutor(folder=folder / "jobs", cluster="local")
    executor._executor._throttling = 0  # seconds between submissions; the default spares a cluster's scheduler
    return executor


def study(**given: Any) -> fedbo.Study:
    # The points depend only on the numbers of the trials, not on the order in which they end.
    return fedbo.Study("s", {"x": fedbo.Float(-2, 2)}, direction="minimize", strategy="random", seed=3, **given)


# Functions are nested because they are pickled by value: workers cannot import this module.


def stuck_once(folder: Path, victim: int) -> Callable[[fedbo.Trial], float]:
    """Return a function of trials. In its first evaluation, the trial ``victim`` writes its process id and waits to be killed."""

    def evaluate(trial):
        import os
        import time

        if trial.number == victim and not (folder / "pid").exists():
            (folder / "part").write_text(str(os.getpid()))
            os.rename(folder / "part", folder / "pid")
            time.sleep(3600)
        return (trial["x"] - 0.3) ** 2

    return evaluate


def kills_itself() -> Callable[[dict[str, Any]], float]:
    def evaluate(params):
        import os
        import signal

        os.kill(os.getpid(), signal.SIGKILL)

    return evaluate


def raises() -> Callable[[dict[str, Any]], float]:
    def evaluate(params):
        raise ValueError("too large\n  for this machine")

    return evaluate


@contextlib.contextmanager
def killer(folder: Path) -> Iterator[threading.Event]:
    """Kill the process that has written its id. The event is set once the process is killed."""
    over, killed = threading.Event(), threading.Event()

    def wait() -> None:
        while not over.wait(0.02):
            if (folder / "pid").exists():
                os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
                killed.set()
                return

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("executor", ENGINES, indirect=True)
def test_a_killed_worker_loses_no_trial_and_doubles_none(executor: Any, tmp_path: Path) -> None:
    told: Counter[int] = Counter()
    shared = study()
    with killer(tmp_path) as killed:
        report = shared.optimize(
            stuck_once(tmp_path, victim=50),
            100,
            executor=executor,
            n_jobs=4,
            callbacks=[lambda _, trial: told.update([trial.number])],
        )
    assert killed.is_set()
    assert (report.told, report.failed, report.open, report.ended) == (100, 0, 0, "complete")
    assert told == Counter(range(100))
    alone = study()
    alone.optimize(lambda params: (params["x"] - 0.3) ** 2, 100)
    assert facts(shared) == facts(alone)
    assert len(facts(shared)) == 100


def facts(given: fedbo.Study) -> set[tuple[int, float, float | None, str]]:
    return {(trial.number, trial["x"], trial.value, trial.state) for trial in given.trials}


@pytest.mark.parametrize("executor", ENGINES, indirect=True)
def test_a_function_that_kills_every_worker_fails(executor: Any) -> None:
    given = study()
    with pytest.raises(fedbo.ObjectiveError) as caught:
        given.optimize(kills_itself(), 9, executor=executor, n_jobs=1, failures_max=1)
    names = ("KilledWorker", "UncompletedJobError", "WorkerCrashedError")
    assert type(caught.value.__cause__).__name__ in names
    (trial,) = given.trials
    assert trial.state == "failed"
    assert trial.message is not None and "its worker died" in trial.message
    assert any(name in trial.message for name in names) and "\n" not in trial.message
    # The other workers survive.
    assert given.optimize(stuck_once(Path(), victim=-1), 3, executor=executor, n_jobs=1).told == 2


@pytest.mark.parametrize("executor", ENGINES, indirect=True)
def test_the_message_of_a_failed_trial_is_what_the_function_raised(executor: Any) -> None:
    given = study()
    assert given.optimize(raises(), 1, executor=executor).failed == 1
    message = given.trials[0].message
    assert message is not None and message.endswith(" ValueError: too large\n  for this machine")
    assert "Traceback" not in message


def test_a_job_is_submitted_four_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = study()
    given.optimize(kills_itself(), 1, executor=local_jobs(tmp_path, monkeypatch), failures_max=0)
    assert len(list((tmp_path / "jobs").glob("*_submitted.pkl"))) == 4
    assert "its worker died 4 times while evaluating it" in str(given.trials[0].message)
    again = [record.message for record in caplog.records if "evaluated again" in record.message]
    assert ["(2 of 4 times)" in again[0], "(4 of 4 times)" in again[2], len(again)] == [True, True, 3]


def test_jobs_of_a_batch_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor, given = local_jobs(tmp_path, monkeypatch), study()
    with pytest.raises(fedbo.Error, match="outside of"), executor.batch():
        given.optimize(raises(), 3, executor=executor)
    assert [trial.state for trial in given.trials] == ["waiting"]


def test_dask_tells_its_number_of_workers(client: Any) -> None:
    client.wait_for_workers(2)
    assert _executors.n_workers(client.get_executor()) == _executors.n_workers(client) == 2


def test_dask_evaluates_equal_points_each_by_itself(client: Any) -> None:
    def evaluate(params):
        import time
        import uuid

        time.sleep(0.1)
        return uuid.uuid4().int % 2**50

    space = {"kind": ["a", "b"]}
    for executor in (client, client.get_executor()):
        given = fedbo.Study("n", space, direction="minimize", strategy="random", noisy=True)
        given.optimize(evaluate, 8, executor=executor, n_jobs=8)
        assert len({trial.value for trial in given.trials}) == 8


def test_a_result_that_cannot_be_read_here_ends_its_trial(client: Any) -> None:
    def evaluate(params):
        class Odd:
            def __reduce__(self):
                return (__import__, ("a_package_of_the_workers",))

        return Odd()

    given = study()
    assert given.optimize(evaluate, 2, executor=client.get_executor()).failed == 2
    assert "ModuleNotFoundError" in str(given.trials[0].message)


def test_a_cluster_without_workers_ends_the_run() -> None:
    distributed, dask = pytest.importorskip("distributed"), pytest.importorskip("dask")
    given = study()
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": "0.2s"}),
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=logging.CRITICAL) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(distributed.scheduler.NoWorkerError),
    ):
        given.optimize(raises(), 3, executor=client.get_executor(), n_jobs=2)
    assert {trial.state for trial in given.trials} == {"waiting"}


def test_nothing_is_submitted_again_once_a_run_has_ended() -> None:
    submitit = pytest.importorskip("submitit")
    jobs: list[Any] = []
    released = threading.Event()

    class Job:
        """The first job returns a value once there is a second one. The worker of the second dies after the run."""

        def __init__(self) -> None:
            self._place = len(jobs)
            jobs.append(self)

        def done(self) -> bool:
            return len(jobs) > 1 if self._place == 0 else released.is_set()

        def result(self) -> float:
            if self._place == 0:
                return 1.0
            raise submitit.core.utils.UncompletedJobError("died")

        def cancel(self) -> None:
            released.set()
            raise OSError("scancel: not found")

    class Jobs:
        def submit(self, function: Any, /, *arguments: Any) -> Job:
            return Job()

    def told(*_: Any) -> None:
        raise RuntimeError("enough")

    given = study()
    with pytest.raises(RuntimeError, match="enough"):
        given.optimize(raises(), 9, executor=Jobs(), n_jobs=2, callbacks=[told])
    for thread in threading.enumerate():
        if thread.name.startswith("fedbo-trial-"):
            thread.join()
    assert len(jobs) == 2
    assert sorted(trial.state for trial in given.trials) == ["complete", "waiting"]


@pytest.mark.ray
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("options", "evaluations"), [({}, 4), ({"max_retries": 0}, 1), ({"max_retries": 1}, 2)])
def test_ray_or_the_study_repeats_a_trial_but_not_both(
    ray: Any, tmp_path: Path, options: dict[str, int], evaluations: int
) -> None:
    from fedbo.integrations.ray import RayExecutor

    def evaluate(params):
        import os
        import signal

        with (tmp_path / "begun").open("a") as begun:
            begun.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

    given = study()
    given.optimize(evaluate, 1, executor=RayExecutor(**options), failures_max=0)
    assert given.trials[0].state == "failed"
    assert len((tmp_path / "begun").read_text()) == evaluations


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_rays_resources_set_the_number_of_trials_at_once(ray: Any) -> None:
    from fedbo.integrations.ray import RayExecutor

    for options, expected in (({}, 2), ({"num_cpus": 2}, 1), ({"num_cpus": 0}, 1), ({"num_cpus": 0.5}, 4), ({"num_gpus": 1}, 1)):
        assert _executors.n_workers(RayExecutor(**options)) == expected


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_a_future_of_ray_that_is_cancelled_cancels_its_task(ray: Any, tmp_path: Path) -> None:
    from fedbo.integrations.ray import RayExecutor

    def waits(folder):
        import time

        while not (folder / "go on").exists():
            time.sleep(0.02)
        with (folder / "ended").open("a") as ended:
            ended.write("x")

    executor = RayExecutor(num_cpus=2)
    first, second = executor.submit(waits, tmp_path), executor.submit(waits, tmp_path)
    assert second.cancel()  # it has not started yet
    (tmp_path / "go on").touch()
    assert first.result(120) is None
    assert executor.submit(abs, -3).result(120) == 3
    assert (tmp_path / "ended").read_text() == "x"
