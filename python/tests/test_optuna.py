"""fedbo in Optuna: Optuna's own sampler tests, and cases that they do not cover.

Of the suites in ``optuna.testing.pytest_samplers``, ``MultiObjectiveSamplerTestCase`` is not run, because the samplers are
single-objective, which ``SingleOnlySamplerTestCase`` checks. Nothing else is skipped. No suite is run with ``FederatedSampler``,
because the suites use arbitrary search spaces, and its space is given by the federation.
"""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

optuna = pytest.importorskip("optuna")

from optuna.distributions import (  # noqa: E402
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.testing.pytest_samplers import (  # noqa: E402
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)
from optuna.trial import TrialState  # noqa: E402

import fedbo  # noqa: E402
from fedbo.integrations.optuna import FederatedSampler, FedboSampler, import_study  # noqa: E402

SPACE: dict[str, BaseDistribution] = {
    "x": FloatDistribution(-2, 2),
    "rate": FloatDistribution(1e-4, 1, log=True),
    "width": IntDistribution(16, 128, step=16),
    "kind": CategoricalDistribution([None, True, 3, 1.5, "text"]),
}


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Create a SQLite file with tables, and close it after the test."""
    opened = []

    def connect() -> Any:
        opened.append(optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/study.db"))
        return opened[-1]

    connect()
    yield connect
    for storage in opened:
        storage.engine.dispose()


def objective(trial: Any) -> float:
    x = trial.suggest_float("x", -2, 2)
    rate = trial.suggest_float("rate", 1e-4, 1, log=True)
    width = trial.suggest_int("width", 16, 128, step=16)
    kind = trial.suggest_categorical("kind", [None, True, 3, 1.5, "text"])
    return float((x - 0.5) ** 2 + abs(rate - 0.01) + (width - 48) ** 2 / 1e4 + (kind is not True))


class TestOptunasOwn(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """Optuna's public suites."""

    @pytest.fixture
    def sampler(self) -> Callable[[], Any]:
        return FedboSampler


class TestOptunasOwnFromTheSecondTrial(RelativeSamplerTestCase):
    """The same suite, with the surrogate instead of the initial design."""

    @pytest.fixture
    def sampler(self) -> Callable[[], Any]:
        return lambda: FedboSampler(n_startup_trials=1, noisy=True, seed=0)


def points(study: Any) -> list[dict[str, Any]]:
    return [dict(trial.params) for trial in study.trials]


def test_it_finds_the_best_point_and_says_where_points_come_from() -> None:
    study = optuna.create_study(sampler=FedboSampler(SPACE, seed=1))
    study.optimize(objective, n_trials=35)
    assert study.best_params["kind"] is True
    assert study.best_value < 0.3
    sources = [trial.user_attrs["fedbo:source"] for trial in study.trials]
    assert sources[0] == "initial" and sources[-1] == "own"


@pytest.mark.parametrize("space", [SPACE, None], ids=["given", "intersection"])
def test_equal_seeds_give_equal_trials(space: Any) -> None:
    def run(seed: int) -> list[dict[str, Any]]:
        study = optuna.create_study(sampler=FedboSampler(space, seed=seed, n_startup_trials=5))
        study.optimize(objective, n_trials=9)
        return points(study)

    first = run(7)
    assert run(7) == first
    assert run(8) != first


def test_points_are_those_of_a_study_of_fedbo() -> None:
    space = {
        "x": fedbo.Float(-2, 2),
        "rate": fedbo.Float(1e-4, 1, log=True),
        "width": fedbo.Int(16, 128, step=16),
        "share": fedbo.Float(0.05, 0.95, step=0.1),
        "kind": fedbo.Categorical(["a", "b", "c"]),
    }
    own = fedbo.Study("own", space, direction="minimize", seed=5, initial=4)
    study = optuna.create_study(sampler=FedboSampler(space, seed=5, n_startup_trials=4))

    def value(params: Any) -> float:
        smooth = (params["x"] - 0.5) ** 2 + params["rate"] + params["width"] / 100 + params["share"]
        return float(smooth + (params["kind"] == "b"))

    for number in range(14):
        asked = own.ask()
        own.tell(asked, value(asked.params))
        trial = study.ask(study.sampler.infer_relative_search_space(study, None))
        study.tell(trial, value(asked.params))
        # Optuna's grid has values such as 0.15000000000000002 instead of 0.15.
        share = trial.params["share"]
        assert trial.params == {**asked.params, "share": share} and share == pytest.approx(asked.params["share"])
        assert study.trials[number].user_attrs["fedbo:source"] == asked.source


def test_what_it_knows_is_the_study(sqlite: Callable[[], Any]) -> None:
    whole = optuna.create_study(sampler=FedboSampler(SPACE, seed=3, n_startup_trials=4))
    whole.optimize(objective, n_trials=10)
    optuna.create_study(storage=sqlite(), study_name="s", sampler=FedboSampler(SPACE, seed=3))
    for _ in range(5):
        sampler = FedboSampler(SPACE, seed=3, n_startup_trials=4)
        sampler = pickle.loads(pickle.dumps(copy.deepcopy(sampler)))
        sampler.reseed_rng()
        study = optuna.load_study(storage=sqlite(), study_name="s", sampler=sampler)
        study.optimize(objective, n_trials=2)
    assert points(study) == points(whole)


def test_names_and_ranges_of_optunas() -> None:
    space = {
        "learning rate": FloatDistribution(1e-4, 1, log=True),
        '"quoted", {too}': CategoricalDistribution([1, False, "1", None]),
        "third": FloatDistribution(0, 0.9, step=0.3),
        "only": IntDistribution(3, 3),
    }
    study = optuna.create_study(sampler=FedboSampler(space, seed=0, n_startup_trials=4, noisy=True))
    for _ in range(12):
        trial = study.ask(space)
        study.tell(trial, trial.params["learning rate"])
        assert trial.params["only"] == 3
    tried = [trial.params['"quoted", {too}'] for trial in study.trials]
    assert {(type(each), each) for each in tried} == {(int, 1), (bool, False), (str, "1"), (type(None), None)}
    assert {round(each["third"], 9) for each in points(study)} <= {0, 0.3, 0.6, 0.9}
    with pytest.raises(fedbo.DefinitionError, match="width.*high"):
        FedboSampler({"width": IntDistribution(0, 2**60)})


def test_directions() -> None:
    for direction, sign in [("minimize", 1.0), ("maximize", -1.0)]:
        sampler = FedboSampler({"x": fedbo.Float(-2, 2)}, seed=0)
        study = optuna.create_study(sampler=sampler, direction=direction)
        study.optimize(lambda t, sign=sign: sign * (t.suggest_float("x", -2, 2) - 1) ** 2, n_trials=15)  # type: ignore[misc]
        assert study.best_params["x"] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "journal"])
def test_four_jobs_on_a_storage(kind: str, tmp_path: Path, sqlite: Callable[[], Any]) -> None:
    storage: Any = None
    if kind == "sqlite":
        storage = sqlite()
    elif kind == "journal":
        backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal"))
        storage = optuna.storages.JournalStorage(backend)
    study = optuna.create_study(storage=storage, sampler=FedboSampler(SPACE, seed=2))
    study.optimize(objective, n_trials=40, n_jobs=4)
    assert len(study.trials) == 40
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)
    assert len({repr(sorted(each.items())) for each in points(study)}) == 40
    assert study.best_value < 0.6


def test_three_processes_on_one_study(tmp_path: Path, sqlite: Callable[[], Any]) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    space = "{'x': F(-2, 2), 'kind': C([None, 1, 'a'])}"
    worker = f"""
import optuna
from optuna.distributions import CategoricalDistribution as C, FloatDistribution as F
from fedbo.integrations.optuna import FedboSampler
study = optuna.load_study(storage={url!r}, study_name="s", sampler=FedboSampler({space}, seed=0))
study.optimize(lambda t: t.suggest_float("x", -2, 2) ** 2 + (t.suggest_categorical("kind", [None, 1, "a"]) == 1), n_trials=8)
"""
    optuna.create_study(storage=sqlite(), study_name="s")
    workers = [subprocess.Popen([sys.executable, "-c", worker], cwd=tmp_path) for _ in range(3)]
    assert [each.wait() for each in workers] == [0, 0, 0]
    study = optuna.load_study(storage=sqlite(), study_name="s")
    assert len(study.trials) == 24
    assert len({repr(each) for each in points(study)}) == 24


def test_open_trials_are_not_asked_for_again() -> None:
    space = {"n": IntDistribution(1, 6)}
    study = optuna.create_study(sampler=FedboSampler(space, seed=0))
    trials = [study.ask(space) for _ in range(6)]
    assert sorted(trial.params["n"] for trial in trials) == [1, 2, 3, 4, 5, 6]


def test_a_point_counts_before_its_objective_has_asked_for_it() -> None:
    space = {"n": IntDistribution(1, 4), "m": IntDistribution(1, 2)}
    study = optuna.create_study(sampler=FedboSampler(space, seed=0))
    trials = [study.ask() for _ in range(8)]
    firsts = [trial.suggest_int("n", 1, 4) for trial in trials]
    assert len({(n, trial.suggest_int("m", 1, 2)) for n, trial in zip(firsts, trials, strict=True)}) == 8


def test_enqueued_values_are_kept_and_learned_from() -> None:
    study = optuna.create_study(sampler=FedboSampler(SPACE, seed=0))
    whole = {"x": 0.5, "rate": 0.01, "width": 48, "kind": True}
    study.enqueue_trial(whole)
    study.enqueue_trial({"kind": None, "x": -1.0})
    study.optimize(objective, n_trials=6)
    first, second = study.trials[:2]
    assert dict(first.params) == whole and "fedbo:source" not in first.user_attrs
    assert (second.params["kind"], second.params["x"]) == (None, -1.0)
    assert whole not in points(study)[1:]
    line = optuna.create_study(sampler=FedboSampler({"x": fedbo.Float(-2, 2)}, seed=0, n_startup_trials=3))
    for x in (-1.5, 0.5, 1.5):
        line.enqueue_trial({"x": x})
    line.optimize(lambda t: (t.suggest_float("x", -2, 2) - 0.5) ** 2, n_trials=6)
    assert line.trials[3].user_attrs["fedbo:source"] == "own"
    assert all(abs(trial.params["x"] - 0.5) < 0.5 for trial in line.trials[4:])


@pytest.mark.filterwarnings("ignore:Fixed parameter")
def test_waiting_points_are_open() -> None:
    space = {"n": IntDistribution(1, 3)}
    study = optuna.create_study(sampler=FedboSampler(space, seed=0))
    asked = [study.ask(space).params["n"]]
    study.enqueue_trial({"n": asked[0] % 3 + 1})
    asked.append(study.ask(space).params["n"])  # the waiting trial
    study.enqueue_trial({"n": 99})  # not in the space, so it is ignored
    assert study.ask(space).params["n"] not in asked
    asked.append(study.ask(space).params["n"])
    assert sorted(asked) == [1, 2, 3]


def test_failed_and_pruned_trials_are_points_that_did_not_succeed() -> None:
    def failing(trial: Any) -> float:
        x = trial.suggest_float("x", -2, 2)
        if x > 1:
            raise optuna.TrialPruned
        if x < -1:
            raise RuntimeError("no value there")
        return float(x)

    study = optuna.create_study(sampler=FedboSampler({"x": fedbo.Float(-2, 2)}, seed=0))
    study.optimize(failing, n_trials=25, catch=(RuntimeError,))
    states = [trial.state for trial in study.trials]
    assert TrialState.PRUNED in states and TrialState.FAIL in states
    # The best value is next to the failures, and few trials fail.
    assert study.best_value < -0.8
    assert states[-12:].count(TrialState.COMPLETE) >= 8


@pytest.mark.parametrize("federated", [False, True])
def test_a_pruner_that_shows_part_of_a_study(federated: bool) -> None:
    agent = fedbo.Study("agent", {"x": fedbo.Float(-2, 2)}, direction="minimize")
    space = {"x": fedbo.Float(-2, 2)}
    sampler = FederatedSampler(space, agent) if federated else FedboSampler(space, seed=0)
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=9)
    study = optuna.create_study(sampler=sampler, pruner=pruner)

    def training(trial: Any) -> float:
        x = trial.suggest_float("x", -2, 2)
        for epoch in range(9):
            trial.report(x**2 + 1 / (epoch + 1), epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return float(x**2)

    study.optimize(training, n_trials=25)
    assert {TrialState.PRUNED, TrialState.COMPLETE} == {trial.state for trial in study.trials}
    assert study.best_value < 0.2
    if federated:
        assert [trial.value for trial in agent.trials] == [
            trial.value if trial.state == TrialState.COMPLETE else None for trial in study.trials
        ]


def test_infinite_values_are_no_values() -> None:
    study = optuna.create_study(sampler=FedboSampler({"x": fedbo.Float(-2, 2)}, seed=0))
    study.optimize(lambda t: float("inf") if t.suggest_float("x", -2, 2) > 1 else t.params["x"] ** 2, n_trials=15)
    assert study.best_value < 0.1


def test_conditional_parameters_go_to_the_independent_sampler(caplog: pytest.LogCaptureFixture) -> None:
    def conditional(trial: Any) -> float:
        kind = trial.suggest_categorical("kind", ["a", "b"])
        x = trial.suggest_float("x", -2, 2)
        return float(x**2 + (trial.suggest_float("depth", 0, 1) if kind == "a" else 0.5))

    asked: list[str] = []

    class Independent(optuna.samplers.RandomSampler):  # type: ignore[misc]
        def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
            asked.append(name)
            return super().sample_independent(study, trial, name, distribution)

    study = optuna.create_study(sampler=FedboSampler(seed=0, independent_sampler=Independent(seed=0)))
    study.optimize(conditional, n_trials=20)
    assert asked.count("kind") == asked.count("x") == 1  # of the first trial
    assert asked.count("depth") > 1
    warned = [record.getMessage() for record in caplog.records if record.name == "fedbo"]
    assert len(warned) == 1 and "'depth'" in warned[0] and "warn_independent_sampling" in warned[0]


def test_a_space_without_an_untried_point_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study(sampler=FedboSampler({"c": ["a", "b"]}, seed=0))
    study.optimize(lambda t: float(t.suggest_categorical("c", ["a", "b"]) == "a"), n_trials=6)
    assert {each["c"] for each in points(study)[:2]} == {"a", "b"}
    assert study.trials[-1].user_attrs["fedbo:source"] == "own"
    warned = [record.getMessage() for record in caplog.records if record.name == "fedbo"]
    assert len(warned) == 1 and "every point" in warned[0]


def test_noisy_studies_try_points_again() -> None:
    study = optuna.create_study(sampler=FedboSampler({"c": ["a", "b", "c"]}, seed=0, noisy=True, n_startup_trials=3))
    study.optimize(lambda t: float("abc".index(t.suggest_categorical("c", ["a", "b", "c"]))), n_trials=12)
    assert points(study).count({"c": "a"}) > 3


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(sampler=FedboSampler(), directions=["minimize", "maximize"])
    with pytest.raises(fedbo.DefinitionError, match="one objective.* has 2"):
        study.optimize(lambda t: (t.suggest_float("x", 0, 1), 1.0), n_trials=1)


def test_a_strategy_is_refused_where_it_is_given() -> None:
    with pytest.raises(fedbo.DefinitionError, match="log-ei"):
        FedboSampler(strategy="log-eye")
    with pytest.raises(fedbo.DefinitionError, match="options"):
        FedboSampler(strategy_options={"options": 3})
    with pytest.raises(fedbo.DefinitionError, match="initial"):
        FedboSampler(n_startup_trials=0)
    sampler = FedboSampler(SPACE, strategy="ts", seed=0, n_startup_trials=4)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=6)
    assert len(study.trials) == 6


SHARED = {"x": fedbo.Float(-2, 2), "kind": ["a", "b"]}


def shared_objective(trial: Any) -> float:
    x, kind = trial.suggest_float("x", -2, 2), trial.suggest_categorical("kind", ["a", "b"])
    return float((x - 1) ** 2 + (kind == "a"))


def test_an_agent_asks_and_is_told() -> None:
    agent = fedbo.Study("agent", SHARED, direction="minimize")
    study = optuna.create_study(sampler=FederatedSampler(SHARED, agent))
    study.optimize(shared_objective, n_trials=15)
    assert [dict(trial.params) for trial in agent.trials] == points(study)
    assert [trial.value for trial in agent.trials] == [trial.value for trial in study.trials]
    assert [trial.user_attrs["fedbo:number"] for trial in study.trials] == list(range(15))
    assert [trial.user_attrs["fedbo:source"] for trial in study.trials] == [t.source for t in agent.trials]


def test_an_agent_is_told_of_failures_and_of_nothing_that_it_did_not_ask(caplog: pytest.LogCaptureFixture) -> None:
    agent = fedbo.Study("agent", SHARED, direction="minimize")
    study = optuna.create_study(sampler=FederatedSampler(SHARED, agent))
    study.enqueue_trial({"x": 0.0})

    def failing(trial: Any) -> float:
        value = shared_objective(trial)
        trial.suggest_int("own", 1, 9)
        if trial.number == 2:
            raise optuna.TrialPruned
        if trial.number == 3:
            raise RuntimeError("broken")
        return float("inf") if trial.number == 4 else value

    study.optimize(failing, n_trials=6, catch=(RuntimeError,))
    assert [trial.state for trial in agent.trials] == ["complete", "failed", "failed", "failed", "complete"]
    assert [trial.message for trial in agent.trials[1:4]] == [
        "the trial ended as PRUNED",
        "the trial ended as FAIL",
        "the value inf is not a finite number",
    ]
    warned = [record.getMessage() for record in caplog.records if record.name == "fedbo"]
    assert len(warned) == 1 and "'own'" in warned[0]


def test_an_agent_is_told_no_value_of_another_point() -> None:
    agent = fedbo.Study("agent", {"x": fedbo.Float(-2, 2)}, direction="minimize")
    study = optuna.create_study(sampler=FederatedSampler({"x": fedbo.Float(-2, 2)}, agent))
    # The range is narrower than the federation's. If the agent's point is outside, another value is sampled.
    study.optimize(lambda t: float(t.suggest_float("x", -0.1, 0.1)), n_trials=8)
    asked = agent.trials
    for trial, held in zip(study.trials, asked, strict=True):
        if trial.params["x"] == held.params["x"]:
            assert held.value == trial.value
        else:
            assert held.state == "failed" and "another point" in (held.message or "")
    assert any(held.state == "failed" for held in asked)


def test_an_agent_of_another_direction_is_refused() -> None:
    agent = fedbo.Study("agent", SHARED, direction="maximize")
    study = optuna.create_study(sampler=FederatedSampler(SHARED, agent))
    with pytest.raises(fedbo.DefinitionError, match="maximize"):
        study.optimize(shared_objective, n_trials=1)
    assert agent.trials == []
    with pytest.raises(TypeError, match="process of its agent"):
        pickle.dumps(study.sampler)


def test_an_agent_is_asked_by_one_thread_at_a_time() -> None:
    inner = fedbo.Study("agent", SHARED, direction="minimize")
    busy = threading.Lock()

    class Agent:
        def ask(self) -> fedbo.Trial:
            assert busy.acquire(blocking=False)
            try:
                return inner.ask()
            finally:
                busy.release()

        def tell(self, trial: Any, value: float | None = None, *, failed: str | None = None) -> None:
            inner.tell(trial, value, failed=failed)

    study = optuna.create_study(sampler=FederatedSampler(SHARED, Agent()))
    study.optimize(shared_objective, n_trials=12, n_jobs=4)
    assert len(inner.trials) == 12 and all(trial.value is not None for trial in inner.trials)


class OneAtATime:
    """Works like an agent over a network: a trial that was asked for but not told is returned again."""

    def __init__(self) -> None:
        self.study = fedbo.Study("agent", SHARED, direction="minimize")
        self.open: fedbo.Trial | None = None

    def ask(self) -> fedbo.Trial:
        self.open = self.open or self.study.ask()
        return self.open

    def tell(self, trial: Any, value: float | None = None, *, failed: str | None = None) -> None:
        self.open = None
        self.study.tell(trial, value, failed=failed)


def test_an_interrupted_trial_has_failed_and_one_that_was_left_is_given_again() -> None:
    agent = OneAtATime()
    study = optuna.create_study(sampler=FederatedSampler(SHARED, agent))

    def interrupted(trial: Any) -> float:
        value = shared_objective(trial)
        if trial.number == 2:
            raise KeyboardInterrupt
        return value

    with pytest.raises(KeyboardInterrupt):
        study.optimize(interrupted, n_trials=5)
    # Both Optuna and the agent count the trial as failed.
    assert [trial.state for trial in agent.study.trials] == ["complete", "complete", "failed"]
    left = study.ask()
    x = left.suggest_float("x", -2, 2)
    study.optimize(interrupted, n_trials=2)
    assert study.trials[4].params["x"] == x
    assert [trial.state for trial in agent.study.trials[3:]] == ["complete"] * 2
    study.tell(left, 1.0)  # the agent already has its value
    assert agent.study.trials[3].value == study.trials[4].value


def test_an_agent_of_one_trial_at_a_time_refuses_several_jobs() -> None:
    agent = OneAtATime()
    study = optuna.create_study(sampler=FederatedSampler(SHARED, agent))
    first = study.ask()
    first.suggest_float("x", -2, 2)
    raised: list[str] = []

    def other() -> None:
        try:
            study.ask().suggest_float("x", -2, 2)
        except fedbo.Error as error:
            raised.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert len(raised) == 1 and "n_jobs=1" in raised[0]
    study.tell(first, 1.0)
    assert [trial.value for trial in agent.study.trials] == [1.0]


def test_a_new_study_learns_from_an_imported_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = optuna.create_study(study_name="old", sampler=optuna.samplers.RandomSampler(seed=0))
    old.optimize(shared_objective, n_trials=20)
    imported = import_study(old, "sqlite:old.db")
    assert [trial.value for trial in imported.trials] == [trial.value for trial in old.trials]
    old.optimize(shared_objective, n_trials=5)
    assert len(import_study(old, "sqlite:old.db").trials) == 25
    new = fedbo.Study("new", SHARED, direction="minimize", old_studies=["sqlite:old.db"])
    # The first query uses the old study, which reveals the location of the best point.
    first = new.ask()
    assert first.params["kind"] == "b" and abs(float(first.params["x"]) - 1) < 0.6
    other = optuna.create_study(study_name="old", sampler=optuna.samplers.RandomSampler(seed=1))
    other.optimize(shared_objective, n_trials=3)
    with pytest.raises(fedbo.DefinitionError, match="a different trial 0"):
        import_study(other, "sqlite:old.db")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_samples_whatever_its_parent_was_doing(tmp_path: Path) -> None:
    sampler = FedboSampler({"x": FloatDistribution(-2, 2)}, seed=0)
    study = optuna.create_study(sampler=sampler)
    with sampler._lock:  # as if another thread of the parent held it
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            study.optimize(lambda trial: trial.suggest_float("x", -2, 2), n_trials=1)
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_an_import_goes_on_whatever_was_added_meanwhile(tmp_path: Path) -> None:
    # Values on a grid may differ from those in the file in the last bits. A repeated point makes the study noisy.
    grid = {"x": FloatDistribution(0.0, 0.9, step=0.3)}
    old = optuna.create_study(study_name="old")
    storage = f"sqlite:{tmp_path}/old.db"
    for n_points, x in enumerate([0.3 * 3, 0.6, 0.6], start=1):
        old.add_trial(optuna.create_trial(params={"x": x}, distributions=grid, value=x))
        imported = import_study(old, storage)
        assert [trial.state for trial in imported.trials] == ["complete"] * n_points
    assert not imported.noisy
    assert import_study(old, f"sqlite:{tmp_path}/other.db").noisy


def test_an_import_leaves_out_what_has_no_place() -> None:
    old = optuna.create_study(study_name="old")
    distributions = {"x": FloatDistribution(-2, 2), "c": CategoricalDistribution([None, "a"])}
    for x, c, value in [(0.0, None, 1.0), (1.0, "a", float("inf")), (0.0, None, 2.0)]:
        given = {"x": x, "c": c}
        old.add_trial(optuna.create_trial(params=given, distributions=distributions, value=value))
    old.add_trial(optuna.create_trial(params={}, distributions={}, state=TrialState.FAIL))
    imported = import_study(old)
    assert [dict(trial.params) for trial in imported.trials] == [{"c": "None", "x": 0.0}] * 2
    assert [trial.value for trial in imported.trials] == [1.0, 2.0]
    with pytest.raises(fedbo.DefinitionError, match="no parameter in common"):
        import_study(optuna.create_study(study_name="empty"))


def test_trials_outside_the_space_are_counted_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    old = optuna.create_study(study_name="old")
    for x in (0.5, 1.5, -0.5):
        old.add_trial(optuna.create_trial(params={"x": x}, distributions={"x": FloatDistribution(-2, 2)}, value=x))
    space = {"x": fedbo.Float(0, 1)}
    assert [trial.value for trial in import_study(old, space=space).trials] == [0.5]
    assert "2 of 3 complete trials of study 'old' are outside the space and are left out: 1, 2" in caplog.text
    with pytest.raises(fedbo.DefinitionError, match=r"2 of 3 complete trials .* \(1, 2\); widen space="):
        import_study(old, space=space, outside="refuse")
    with pytest.raises(fedbo.DefinitionError, match="expected 'skip' or 'refuse'"):
        import_study(old, space=space, outside="keep")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_several_objectives_and_constraints_are_imported() -> None:
    old = optuna.create_study(study_name="ovens", directions=["minimize", "maximize"])
    old.set_metric_names(["loss", "speed"])
    for x in (0.0, 0.5, 1.0):
        attributes = {"constraints": [x - 0.6]}
        old.add_trial(
            optuna.create_trial(
                params={"x": x},
                distributions={"x": FloatDistribution(0, 1)},
                values=[x, 2 * x],
                system_attrs=attributes,
            )
        )
    incomplete = optuna.create_trial(params={"x": 0.1}, distributions={"x": FloatDistribution(0, 1)}, values=[0.1, 0.2])
    old.add_trial(incomplete)
    imported = import_study(old)
    assert [dict(trial.outcomes) for trial in imported.trials] == [
        {"loss": x, "speed": 2 * x, "constraint_0": x - 0.6} for x in (0.0, 0.5, 1.0)
    ]
    assert [trial.feasible for trial in imported.trials] == [True, True, False]
    assert imported.objectives == {"loss": "minimize", "speed": "maximize"}


def test_the_package_for_optunahub_is_the_same() -> None:
    import importlib.util

    path = Path(__file__).parents[1] / "optunahub" / "fedbo" / "__init__.py"
    spec = importlib.util.spec_from_file_location("optunahub_fedbo", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FedboSampler is FedboSampler and module.FederatedSampler is FederatedSampler
