"""Constraints and several objectives of studies."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import fedbo
import pytest

from conftest import Run

SPACE = {"x": fedbo.Float(-1.0, 2.0)}


def numbers(params: dict[str, Any]) -> dict[str, float]:
    x = params["x"]
    return {"near_0": x**2, "near_1": (x - 1) ** 2, "size": abs(x)}


def two(**options: Any) -> fedbo.Study:
    options = {"strategy": "random", "objectives": {"near_0": "minimize", "near_1": "minimize"}, **options}
    return fedbo.Study("two", SPACE, constraints={"size": {"at_most": 0.75}}, **options)


def bounded(**options: Any) -> fedbo.Study:
    options = {"strategy": "random", "constraints": {"size": {"at_least": 0.5}}, **options}
    return fedbo.Study("bounded", SPACE, direction="minimize", **options)


def value_and_size(params: dict[str, Any]) -> dict[str, float]:
    return {"value": params["x"] ** 2, "size": abs(params["x"])}


def dominates(a: fedbo.Trial, b: fedbo.Trial) -> bool:
    pairs = [(a.outcomes[name], b.outcomes[name]) for name in ("near_0", "near_1")]
    return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)


def test_the_best_trials_are_those_that_no_feasible_one_dominates(tmp_path: Path) -> None:
    study = two(storage=tmp_path / "two.db")
    assert study.optimize(numbers, n_trials=30).failed == 0
    trials = study.trials
    assert all(trial.feasible == (trial.outcomes["size"] <= 0.75) for trial in trials)
    assert all(trial.value == trial.outcomes["near_0"] for trial in trials)
    feasible = [trial for trial in trials if trial.feasible]
    front = [trial for trial in feasible if not any(dominates(other, trial) for other in feasible)]
    assert 1 < len(front) < len(trials)
    assert study.best_trials == front
    with pytest.raises(fedbo.DefinitionError, match="several objectives"):
        _ = study.best_trial
    loaded = fedbo.Study.load(tmp_path / "two.db")
    assert loaded.objectives == {"near_0": "minimize", "near_1": "minimize"}
    assert loaded.constraints == {"size": {"at_most": 0.75}}
    assert loaded.best_trials == front


def test_the_best_trial_meets_the_constraints() -> None:
    study = bounded()
    study.optimize(value_and_size, n_trials=20)
    feasible = [trial for trial in study.trials if abs(trial["x"]) >= 0.5]
    assert study.best_trial == min(feasible, key=lambda trial: trial.outcomes["value"])
    assert study.best_trials == [study.best_trial]
    assert study.best_trial.outcomes == value_and_size(dict(study.best_trial.params))
    none = bounded(constraints={"size": {"at_least": 9.0}})
    none.optimize(value_and_size, n_trials=3)
    with pytest.raises(fedbo.Error, match="no feasible trial yet"):
        _ = none.best_trial


def test_trials_are_told_by_name() -> None:
    study = two()
    trial = study.ask()
    wrong: list[tuple[Any, str]] = [
        (0.5, "the told result is 0.5, expected a dict with near_0, near_1, size"),
        ({"near_0": 1.0, "near_1": 1.0}, "without 'size'"),
        ({"near_0": 1.0, "near_1": 1.0, "size": 1.0, "weight": 1.0}, "'weight', which is not a number of this study"),
        ({"near_0": 1.0, "near_1": 1.0, "size": "1"}, "'size' = '1', which is not a number"),
    ]
    for given, message in wrong:
        with pytest.raises(TypeError, match=message):
            study.tell(trial, given)
    with pytest.raises(fedbo.DefinitionError, match="not a finite number"):
        study.tell(trial, {"near_0": 1.0, "near_1": math.inf, "size": 1.0})
    study.tell(trial, {"size": 0.5, "near_1": 2.0, "near_0": 1.0})
    assert study.best_trials[0].outcomes == {"near_0": 1.0, "near_1": 2.0, "size": 0.5}
    with pytest.raises(fedbo.DefinitionError, match="the numbers near_0, near_1, size"):
        study._native.tell(trial.number, 0.5)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (1.0, "expected a dict with near_0, near_1, size"),
        ({"near_0": 1.0, "near_1": 1.0}, "a dict without 'size'"),
        ({"near_0": 1.0, "near_1": 1.0, "size": math.inf}, "'size' = inf, which is not a finite number"),
    ],
)
def test_a_function_that_returns_something_else_has_failed(returned: Any, message: str) -> None:
    study = two()
    study.optimize(lambda params: returned, n_trials=1, failures_max=0)
    (trial,) = study.trials
    assert trial.state == "failed" and trial.message is not None and message in trial.message
    assert trial.outcomes == {} and not trial.feasible


def test_an_outcome_may_be_missing() -> None:
    study = two()
    for missing in (None, math.nan):
        study.tell(study.ask(), {"near_0": 3.0, "near_1": missing, "size": 0.5})
    study.tell(study.ask(), {"near_0": None, "near_1": 1.0, "size": 0.5})
    study.tell(study.ask(), {"near_0": 1.0, "near_1": 1.0, "size": None})
    first, _, third, fourth = study.trials
    assert (first.state, first.value, first.outcomes["near_0"]) == ("complete", 3.0, 3.0)
    assert math.isnan(first.outcomes["near_1"])
    assert (third.value, third.feasible, fourth.feasible) == (None, True, False)
    assert study.best_trials == []
    assert study.trials_dataframe()["outcomes_near_1"].isna().tolist() == [True, True, False, False]
    with pytest.raises(TypeError, match="without 'size' .give None if it was not measured"):
        study.tell(study.ask(), {"near_0": 3.0, "near_1": 1.0})
    with pytest.raises(fedbo.DefinitionError, match="none of the numbers near_0, near_1, size was measured"):
        study.tell(4, {"near_0": None, "near_1": None, "size": math.nan})
    with pytest.raises(fedbo.DefinitionError, match="inf"):
        study.tell(4, {"near_0": math.inf, "near_1": None, "size": 0.5})
    study.correct(0, {"near_0": 3.0, "near_1": 2.0, "size": 0.5})
    assert [trial.number for trial in study.best_trials] == [0]


def test_a_function_may_return_none_for_an_outcome() -> None:
    study = bounded(strategy="log-ei")

    def function(params: dict[str, Any]) -> dict[str, float | None]:
        return {"value": params["x"], "size": None if params["x"] < 0.5 else 1.0}

    assert study.optimize(function, n_trials=12).failed == 0
    assert any(math.isnan(trial.outcomes["size"]) for trial in study.trials)
    assert study.best_trial.outcomes["size"] == 1.0
    # NaN is a failure, and so are outcomes that are all missing.
    nothing = bounded()
    assert nothing.optimize(lambda params: {"value": math.nan, "size": 1.0}, n_trials=1).failed == 1
    assert nothing.optimize(lambda params: {"value": None, "size": None}, n_trials=2).failed == 1
    assert "None for all of value, size" in str(nothing.trials[1].message)


def test_a_constraint_has_no_name_beside_its_key() -> None:
    with pytest.raises(TypeError, match="beside its key"):
        bounded(constraints={"size": {"name": "other", "at_least": 0.5}})


def test_definitions_that_cannot_be_used_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"direction": "minimize", "objectives": {"a": "minimize", "b": "minimize"}}, "direction is for a single objective"),
        ({}, "direction is missing"),
        ({"objectives": {"a": "minimize"}}, "expected 2 to 4"),
        ({"objectives": {"a": "minimize", "b": "up"}}, "objectives"),
        ({"direction": "minimize", "constraints": {"ms": {}}}, "has no bound"),
        ({"direction": "minimize", "constraints": {"ms": {"at_most": 1, "at_least": 0}}}, "both at_most and at_least"),
        ({"direction": "minimize", "constraints": {"x": {"at_most": 1}}}, "is the name of a parameter too"),
        ({"direction": "minimize", "constraints": {"ms": {"at_most": 1}}, "strategy": "ts"}, "cannot be combined with"),
        ({"direction": "minimize", "constraints": {"ms": {"at_most": 1}}, "early_stopping": {"rule": "median", "epochs": 5}}, "cannot be combined"),
    ]
    for options, message in cases:
        with pytest.raises(fedbo.DefinitionError, match=message):
            fedbo.Study("bad", SPACE, **options)


def test_pictures_tables_and_insight_are_of_all_numbers(tmp_path: Path) -> None:
    study = two()
    study.optimize(numbers, n_trials=12)
    assert "on the front" in study.plot.pareto().svg
    for refused in (study.plot.history, study.plot.slices, study.plot.importance):
        with pytest.raises(fedbo.Error, match="its pictures are pareto"):
            refused()
    assert "front" in study._repr_html_()
    assert set(study.insight("near_1").importance) == {"x"}
    with pytest.raises(fedbo.DefinitionError, match="which objective"):
        study.insight()
    with pytest.raises(fedbo.DefinitionError, match="no objective 'size'"):
        study.insight("size")
    with pytest.raises(fedbo.Error, match="has one objective"):
        bounded_study = bounded()
        bounded_study.optimize(value_and_size, n_trials=2)
        bounded_study.plot.pareto()
    pytest.importorskip("pandas")
    table = study.trials_dataframe()
    assert list(table["outcomes_near_1"]) == [trial.outcomes["near_1"] for trial in study.trials]
    (path,) = study.export(tmp_path / "trials.json")
    first = json.loads(path.read_text())["trials"][0]
    assert first["outcomes"] == study.trials[0].outcomes


def table_equals_program(study: fedbo.Study, program: Run) -> list[dict[str, Any]]:
    """Compare ``trials_dataframe`` with ``fedbo trials --json`` cell by cell, and return the program's trials."""
    pandas = pytest.importorskip("pandas")
    table = study.trials_dataframe()
    theirs = json.loads(program("trials", study.storage, "--json").stdout)["trials"]
    assert len(table) == len(theirs) > 0

    def cell(row: Any, column: str) -> Any:
        value = row[column]
        return None if not isinstance(value, str) and pandas.isna(value) else value

    for (_, row), trial in zip(table.iterrows(), theirs, strict=True):
        assert (row["number"], row["state"], row["source"]) == (trial["number"], trial["state"], trial["source"])
        assert cell(row, "value") == trial["value"], trial
        assert {name: cell(row, f"params_{name}") for name in study.space} == trial["parameters"]
        for name, number in trial.get("outcomes", {}).items():
            assert name == "value" or cell(row, f"outcomes_{name}") == number
        if "feasible" in trial:
            assert row["feasible"] == trial["feasible"]
        assert (cell(row, "message") is None) == (trial["failure"] is None and trial["stopped_because"] is None)
        assert cell(row, "seconds") == pytest.approx(trial["evaluate_seconds"])
    return list(theirs)


TUNED = {"rate": fedbo.Float(1e-5, 1.0, log=True), "units": fedbo.Int(2, 64, log=True), "kind": ["a", "b"]}


def loss_of(params: Any) -> float:
    if params["units"] > 40:
        raise RuntimeError("too large")
    return abs(math.log10(params["rate"]) + 2) + params["units"] / 64


def test_the_table_has_the_values_of_fedbo_trials(tmp_path: Path, program: Run) -> None:
    small = fedbo.Study("small", TUNED, direction="minimize", storage=tmp_path / "small.db")
    small.optimize(loss_of, n_trials=14, failures_max=0)
    large = fedbo.Study("large", TUNED, direction="maximize", storage=tmp_path / "large.db")
    large.optimize(loss_of, n_trials=14, failures_max=0)
    large.ask()
    for study in (small, large):
        states = {trial["state"] for trial in table_equals_program(study, program)}
        assert {"complete", "failed"} <= states

    def train(trial: fedbo.Trial) -> float:
        for epoch in range(1, 10):
            if trial.report(epoch, loss_of(trial.params) + 1 / epoch):
                break
        return 0.0

    stopping = fedbo.Study(
        "stopping", TUNED, direction="minimize", storage=tmp_path / "stopping.db", early_stopping={"rule": "asha", "epochs": 9}
    )
    stopping.optimize(train, n_trials=24, failures_max=0)
    stopped = [trial for trial in table_equals_program(stopping, program) if trial["state"] == "stopped"]
    assert stopped and all(trial["value"] is not None for trial in stopped)

    bounds = {"megabytes": {"at_most": 3.0}}
    bound = fedbo.Study("bound", TUNED, direction="maximize", storage=tmp_path / "bound.db", constraints=bounds)
    bound.optimize(lambda params: {"value": loss_of(params), "megabytes": params["units"] / 8}, n_trials=14, failures_max=0)
    assert {trial.get("feasible") for trial in table_equals_program(bound, program)} >= {True, False}
    goals = {"error": "minimize", "speed": "maximize"}
    several = fedbo.Study("several", TUNED, objectives=goals, storage=tmp_path / "several.db")
    several.optimize(lambda params: {"error": loss_of(params), "speed": 1.0 / params["units"]}, n_trials=14, failures_max=0)
    table_equals_program(several, program)
