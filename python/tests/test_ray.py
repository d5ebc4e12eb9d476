"""fedbo in Ray Tune."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

# By default, Ray writes a token into the home folder, and times out early on a busy machine. Set the variables before importing it.
os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")
os.environ.setdefault("RAY_DISABLE_IMPORT_WARNING", "1")

pytestmark = [
    pytest.mark.ray,
    pytest.mark.filterwarnings("default"),  # for warnings of Ray
]

ray = pytest.importorskip("ray")
tune = pytest.importorskip("ray.tune")

import fedbo  # noqa: E402
from fedbo.integrations.ray import FedboSearch  # noqa: E402

SPACE = {"x": fedbo.Float(-2, 2), "kind": [None, 1, "a"]}


def value(config: dict[str, Any]) -> float:
    return float((config["x"] - 0.5) ** 2 + (config.get("kind") is None))


def run(search: FedboSearch, n_trials: int, first: int = 0) -> list[dict[str, Any]]:
    configs = []
    for number in range(first, first + n_trials):
        config = search.suggest(f"t{number}")
        assert isinstance(config, dict)
        configs.append(config)
        search.on_trial_complete(f"t{number}", {"loss": value(config)})
    return configs


def search(**given: Any) -> FedboSearch:
    space = {"x": fedbo.Float(-2, 2), "kind": fedbo.Categorical((None, 1, "a"))}  # type: ignore[arg-type]
    return FedboSearch(given.pop("space", space), "loss", "min", seed=0, **given)


def test_it_finds_the_best_point() -> None:
    configs = run(search(), 25)
    assert min(map(value, configs)) < 0.01
    assert configs == run(search(), 25)


def test_a_maximum() -> None:
    found = FedboSearch({"x": tune.uniform(-2, 2)}, "score", "max", seed=0)
    for number in range(15):
        config = found.suggest(str(number))
        assert isinstance(config, dict)
        found.on_trial_complete(str(number), {"score": -((config["x"] - 1) ** 2)})
    assert abs(config["x"] - 1) < 0.2


def test_suggesting_and_completing_twice_changes_nothing() -> None:
    once, twice = search(), search()
    for number in range(12):
        name = str(number)
        config = once.suggest(name)
        assert twice.suggest(name) == twice.suggest(name) == config
        assert isinstance(config, dict)
        once.on_trial_complete(name, {"loss": value(config)})
        twice.on_trial_complete(name, {"loss": value(config)})
        twice.on_trial_complete(name, None, error=True)
    twice.on_trial_complete("unknown", {"loss": 1.0})
    assert once.suggest("last") == twice.suggest("last")


def test_trials_that_run_are_open_points() -> None:
    found = search(space={"n": tune.randint(0, 5)})
    configs = [found.suggest(str(number)) for number in range(5)]
    assert sorted(config["n"] for config in configs) == [0, 1, 2, 3, 4]  # type: ignore[index]
    assert found.suggest("none left") == FedboSearch.FINISHED


def test_ends_without_a_value_are_failures() -> None:
    for end in ({"result": None, "error": True}, {"result": {"loss": float("nan")}}, {"result": {"other": 1.0}}, {"result": {}}):
        found = search(space={"n": tune.choice(["a", "b"])})
        first = found.suggest("0")
        found.on_trial_complete("0", **end)  # type: ignore[arg-type]
        assert found.suggest("1") != first
        assert found.suggest("2") == FedboSearch.FINISHED


def test_saved_and_restored_it_goes_on_as_if_there_had_been_no_end(tmp_path: Path) -> None:
    whole, saved = search(), search()
    configs = run(whole, 12)
    assert run(saved, 7) == configs[:7]
    running = saved.suggest("t7")
    saved.save(str(tmp_path / "searcher.pkl"))
    other = FedboSearch()  # without arguments, because the file has the whole state
    other.restore(str(tmp_path / "searcher.pkl"))
    assert other.suggest("t7") == running == configs[7]
    other.on_trial_complete("t7", {"loss": value(configs[7])})
    assert run(other, 4, first=8) == configs[8:]
    assert not list(tmp_path.glob("*.part"))


def test_points_to_evaluate_come_first() -> None:
    points = [{"x": 1.25, "kind": "a"}, {"x": -1.0, "kind": None}]
    found = search(points_to_evaluate=points)
    assert [found.suggest("0"), found.suggest("1")] == points
    assert found.suggest("2") not in points
    with pytest.raises(fedbo.DefinitionError, match="not a point of the search space"):
        search(points_to_evaluate=[{"x": 9.0, "kind": "a"}])


def test_evaluated_points_are_learned_from() -> None:
    found = search(space={"x": tune.uniform(-2, 2)}, n_startup_trials=2)
    for x in (-1.5, 0.5, 1.5):
        found.add_evaluated_point({"x": x}, value({"x": x, "kind": 1}))
    config = found.suggest("0")
    assert isinstance(config, dict) and abs(config["x"] - 0.5) < 0.6


def test_tunes_spaces() -> None:
    space = {
        "u": tune.uniform(-1, 1),
        "log": tune.loguniform(1e-4, 1e-1),
        "grid": tune.quniform(0.1, 1, 0.1),
        "n": tune.randint(1, 4),
        "log_n": tune.lograndint(1, 100),
        "even": tune.qrandint(3, 9, 2),
        "nested": {"choice": tune.choice([None, True, (1, 2)]), "deep": {"fixed": [1, 2]}},
    }
    found = search(space=space)
    configs = [found.suggest(str(number)) for number in range(40)]
    for config in configs:
        assert isinstance(config, dict)
        assert -1 <= config["u"] <= 1 and 1e-4 <= config["log"] <= 1e-1
        assert round(config["grid"] * 10) == pytest.approx(config["grid"] * 10)
        assert config["nested"]["deep"]["fixed"] == [1, 2]
    assert {config["n"] for config in configs} == {1, 2, 3}  # type: ignore[index]
    assert {config["even"] for config in configs} == {4, 6, 8}  # type: ignore[index]
    assert {config["nested"]["choice"] for config in configs} == {None, True, (1, 2)}  # type: ignore[index]
    assert {round(config["grid"], 9) for config in configs} <= {round(k / 10, 9) for k in range(1, 11)}  # type: ignore[index]
    logs = [config["log_n"] for config in configs]  # type: ignore[index]
    assert all(isinstance(n, int) and 1 <= n <= 99 for n in logs)
    assert 10 < sum(n < 10 for n in logs) < 30  # half of the logarithmic range


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"x": tune.randn(0, 1)}, "no bounds"),
        ({"x": tune.qloguniform(1, 10, 1)}, "either a step or a logarithmic scale"),
        ({"x": tune.grid_search([1, 2])}, "use tune.choice"),
        ({"x": tune.sample_from(lambda spec: 1)}, "'x'"),
        ({"x": 1}, "no parameter"),
    ],
)
def test_spaces_that_cannot_be_searched(space: dict[str, Any], message: str) -> None:
    with pytest.raises(fedbo.DefinitionError, match=message):
        search(space=space)


def test_metric_and_mode_are_demanded() -> None:
    with pytest.raises(fedbo.DefinitionError, match="metric= and mode="):
        FedboSearch({"x": tune.uniform(0, 1)})
    with pytest.raises(fedbo.DefinitionError, match="metric= and mode="):
        FedboSearch().set_search_properties(None, None, {"x": tune.uniform(0, 1)})
    with pytest.raises(fedbo.DefinitionError, match="one metric"):
        FedboSearch(metric=["a", "b"], mode="min")  # type: ignore[arg-type]
    with pytest.raises(fedbo.DefinitionError, match="no search space"):
        FedboSearch().suggest("0")
    assert not search().set_search_properties("loss", "min", {"x": tune.uniform(0, 1)})


@pytest.mark.timeout(600)
def test_twenty_trials_with_a_scheduler(tmp_path: Path) -> None:
    def trainable(config: dict[str, Any]) -> None:  # pickled by value, because workers cannot import this module
        for epoch in range(1, 5):
            tune.report({"loss": (config["x"] - 0.5) ** 2 + config["offset"] + 1 / epoch})

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    try:
        found = FedboSearch(seed=0)
        tuner = tune.Tuner(
            trainable,
            param_space={"x": tune.uniform(-2, 2), "offset": 0.25},
            tune_config=tune.TuneConfig(
                search_alg=tune.search.ConcurrencyLimiter(found, 2),
                scheduler=tune.schedulers.ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2),
                metric="loss",
                mode="min",
                num_samples=20,
            ),
            run_config=tune.RunConfig(name="fedbo", storage_path=str(tmp_path), verbose=0),
        )
        results = tuner.fit()
        assert len(results) == 20 and results.num_errors == 0
        best = results.get_best_result()
        assert best.metrics is not None and best.metrics["loss"] < 0.25 + 0.25 + 0.05
        assert best.config is not None and best.config["offset"] == 0.25
        assert len(found._told) == 20 and not found._open
        assert all(value is not None for _, value, _ in found._told)
        losses = [value for _, value, _ in found._told]
        assert best.metrics["loss"] in losses
    finally:
        ray.shutdown()
