"""Parameters as users write them: given numbers, ordered choices, fixed values, None, tuples, arrays, ranges, names with units."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedbo
from fedbo._space import parameter, stored
from fedbo.integrations._queries import Queries


def test_given_numbers_reach_the_function_with_their_type() -> None:
    space = {"batch": fedbo.Int(values=[128, 16, 32], log=True), "dose": fedbo.Float(values=np.array([1, 0.5])), "x": fedbo.Float(0, 1)}
    study = fedbo.Study("sets", space, direction="maximize")
    assert study.space == space
    assert study.space["batch"] == fedbo.Int(values=(16, 32, 128), log=True)
    seen: list[dict[str, Any]] = []
    study.optimize(lambda params: seen.append(params) or params["batch"] + params["x"], n_trials=10)
    assert {type(params["batch"]) for params in seen} == {int} and {params["batch"] for params in seen} == {16, 32, 128}
    assert {params["dose"] for params in seen} == {0.5, 1.0}
    assert study.best_params["batch"] == 128
    assert study.enqueue({"batch": np.int64(32), "dose": 1, "x": 0.25}).params["dose"] == 1.0
    with pytest.raises(fedbo.DefinitionError, match="batch = 64, expected one of the numbers 16, 32, 128"):
        study.enqueue({"batch": 64, "dose": 1, "x": 0.25})


def test_the_distances_between_numbers_are_used() -> None:
    levels = [1, 3, 8, 20, 50, 130, 300, 800, 2000, 5000, 13000, 30000]
    study = fedbo.Study("levels", {"l": fedbo.Float(values=levels, log=True), "x": fedbo.Float(0, 1)}, direction="minimize")
    study.optimize(lambda params: (np.log(params["l"] / 800)) ** 2 / 4 + (params["x"] - 0.4) ** 2, n_trials=20)
    assert study.best_params["l"] == 800 and study.best_value < 1e-3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fedbo.Float(0.0), "give low and high"),
        (lambda: fedbo.Int(), "give low and high"),
        (lambda: fedbo.Int(1, values=[1, 2]), "either low and high, or values"),
        (lambda: fedbo.Float(values=["a"]), "is not a number"),
        (lambda: fedbo.Float(values="ab"), "is not a list"),
        (lambda: fedbo.Categorical(3), "is not a list"),
        (lambda: fedbo.Categorical({"a", "b"}), "is not a list"),
    ],
)
def test_a_parameter_that_cannot_be_meant_is_refused(make: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        make()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (fedbo.Int(values=[1.5, 2]), r"values = \[1.5, 2\], expected whole numbers"),
        (fedbo.Float(values=[]), "at least one number"),
        (fedbo.Float(values=[0.0, 1.0], log=True), r"values = \[0.0, 1.0\], expected finite numbers above 0"),
        (range(3, 3), "is empty"),
        ([None, "None"], "have the same text"),
        ([(1, 2), "(1, 2)"], "have the same text"),
        ([], "at least one name"),
    ],
)
def test_a_parameter_without_a_meaning_is_refused(given: Any, words: str) -> None:
    with pytest.raises(fedbo.DefinitionError, match=words):
        fedbo.Study("bad", {"p": given, "x": fedbo.Float(0, 1)}, direction="minimize")


def test_ordered_choices_and_fixed_parameters() -> None:
    space = {
        "speed": fedbo.Categorical(("slow", "medium", "fast"), ordered=True),
        "t": fedbo.Float(25.0, 25.0),
        "n": fedbo.Int(3, 3),
        "kind": ["adam"],
        "x": fedbo.Float(0, 1),
    }
    study = fedbo.Study("fixed", space, direction="minimize")
    study.optimize(lambda params: (params["x"] - 0.5) ** 2 + params["n"] + (params["speed"] != "fast"), n_trials=12)
    assert study.space["speed"] == space["speed"]
    expected = {"speed": "fast", "t": 25.0, "n": 3, "kind": "adam"}
    assert {name: study.best_params[name] for name in expected} == expected
    assert study.insight().importance["t"].variance_share == 0.0
    for picture in (study.plot.slices(), study.plot.importance()):
        assert "<svg" in picture.svg
    with pytest.raises(fedbo.DefinitionError, match="has a single value"):
        fedbo.Study("nothing", {"t": fedbo.Float(25.0, 25.0), "kind": ["adam"]}, direction="minimize")


def test_none_and_tuples_come_back_to_the_function(tmp_path: Path) -> None:
    space: dict[str, Any] = {"depth": [None, 4, 8], "layers": [(64, 64), (np.int64(32),)], "x": fedbo.Float(0, 1)}
    storage = f"sqlite:{tmp_path / 's.db'}"

    def cost(params: dict[str, Any]) -> float:
        assert params["depth"] in (None, 4, 8) and isinstance(params["layers"], tuple)
        return params["x"] + (params["depth"] or 0) + sum(params["layers"]) / 100

    study = fedbo.Study("none", space, direction="minimize", storage=storage)
    study.optimize(cost, n_trials=12)
    assert study.best_params["depth"] is None and study.best_params["layers"] == (32,)
    assert {trial.params["depth"] for trial in study.trials} == {None, 4, 8}
    assert study.insight().best_by_mean.params["layers"] in space["layers"]
    assert study.enqueue({"depth": None, "layers": (64, 64), "x": 0.5}).params["layers"] == (64, 64)
    assert study.space["depth"] == fedbo.Categorical((None, 4, 8))
    again: fedbo.Study = pickle.loads(pickle.dumps(study))
    assert again.best_params == study.best_params
    loaded = fedbo.Study.load(storage)
    assert loaded.best_params["depth"] == "None" and loaded.best_params["layers"] == "(32,)"
    assert stored((np.float64(0.5), (None, "a"))) == "(0.5, (None, 'a'))"


def test_none_in_a_federation() -> None:
    federation = fedbo.Federation(
        "labs", {"depth": [None, 4], "x": fedbo.Float(0, 1)}, agents=["a", "b", "c"], direction="minimize", rounds=3,
        observations={"c": [({"depth": None, "x": 0.5}, 0.5)]},
    )
    seen: list[Any] = []

    def cost(params: dict[str, Any]) -> float:
        seen.append(params["depth"])
        return params["x"] + (params["depth"] or 0)

    result = federation.simulate({"a": cost, "b": cost})
    assert set(seen) <= {None, 4} and None in seen
    assert {row.params["depth"] for row in result.rows} <= {None, 4}


def test_ranges_and_arrays_are_parameters() -> None:
    assert parameter("n", range(3, 10, 2)) == fedbo.Int(3, 9, step=2)
    assert parameter("n", range(10, 3, -3)) == fedbo.Int(4, 10, step=3)
    assert parameter("n", range(5)) == fedbo.Int(0, 4)
    assert parameter("n", range(7, 9, 5)) == fedbo.Int(7, 7)
    assert parameter("kind", np.array(["a", "b"])) == fedbo.Categorical(("a", "b"))
    assert parameter("size", np.array([16, 32])) == fedbo.Categorical((16, 32))
    assert fedbo.Categorical(np.array([16, 32])).choices == (16, 32)
    with pytest.raises(TypeError, match="expected fedbo.Float"):
        parameter("m", np.zeros((2, 2)))


def test_names_may_have_blanks_and_units(tmp_path: Path) -> None:
    space = {"Temp (°C)": fedbo.Float(20, 90), "Stir speed": fedbo.Int(100, 900), "it's [x]": ["a", "b"]}
    study = fedbo.Study("units", space, direction="maximize")
    study.optimize(lambda params: params["Temp (°C)"] - params["Stir speed"] / 100, n_trials=8)
    assert list(study.best_params) == list(space)
    (path,) = study.export(tmp_path / "t.csv")
    assert "Temp (°C),Stir speed,it's [x]" in path.read_text(encoding="utf-8").splitlines()[0]
    assert "Temp (°C)" in study.plot.slices().svg
    for name in ("", " x", "x ", "a{b", "a,b", 'a"b', "a\nb", "a\tb"):
        with pytest.raises(fedbo.DefinitionError):
            fedbo.Study("bad", {name: fedbo.Float(0, 1)}, direction="maximize")


def test_only_unordered_numbers_give_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def run(given: Any) -> str:
        caplog.clear()
        study = fedbo.Study("hint", {"batch": given, "x": fedbo.Float(0, 1)}, direction="minimize", strategy="random")
        study.optimize(lambda params: params["x"], n_trials=1)
        study.optimize(lambda params: params["x"], n_trials=2)
        return caplog.text

    assert run([16, 32, 128]).count("values = [16, 32, 128]") == 1
    for quiet in (fedbo.Int(values=[16, 32, 128]), fedbo.Categorical([16, 32, 128], ordered=True), [16, 32], ["a", "b", "c"]):
        assert run(quiet) == ""


def _queries(space: dict[str, Any]) -> Queries:
    return Queries(
        "test", space, direction="minimize", strategy="log-ei", strategy_options=None, seed=0, initial=4, noisy=False
    )


def test_other_packages_get_numbers_and_ordered_choices_of_any_type() -> None:
    queries = _queries({
        "batch": fedbo.Int(values=[16, 32, 128], log=True),
        "dose": fedbo.Float(values=[0.5, 2.0]),
        "one": fedbo.Float(values=[3.0]),
        "speed": fedbo.Categorical((None, "slow", 3.5), ordered=True),
    })
    told: list[Any] = []
    for number in range(17):
        proposed = queries.propose(told, [], number)
        assert proposed is not None
        point = queries.decode(proposed[0])
        assert point["batch"] in (16, 32, 128) and type(point["batch"]) is int
        assert point["dose"] in (0.5, 2.0) and point["one"] == 3.0 and point["speed"] in (None, "slow", 3.5)
        assert queries.encode(point) == proposed[0]
        told.append((proposed[0], float(point["batch"]), proposed[1]))
    assert queries.encode({"batch": 17, "dose": 0.5, "speed": None}) is None


def test_optuna_samples_given_numbers_by_their_distances() -> None:
    optuna = pytest.importorskip("optuna")
    from fedbo.integrations.optuna import FedboSampler, import_study

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    levels = [1, 3, 8, 20, 50, 130, 300, 800, 2000, 5000, 13000, 30000]
    space = {
        "l": fedbo.Float(values=levels, log=True),
        "speed": fedbo.Categorical(["slow", "medium", "fast"], ordered=True),
        "x": fedbo.Float(0, 1),
    }

    def cost(trial: Any) -> float:
        level = trial.suggest_categorical("l", [float(level) for level in levels])
        speed = trial.suggest_categorical("speed", ["slow", "medium", "fast"])
        return float(np.log(level / 800) ** 2 / 4 + (trial.suggest_float("x", 0, 1) - 0.4) ** 2 + (speed != "medium"))

    study = optuna.create_study(sampler=FedboSampler(space, seed=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.optimize(cost, n_trials=24)
    assert study.best_params["l"] == 800 and study.best_params["speed"] == "medium"
    imported = import_study(study, space=space)
    assert imported.space["speed"] == fedbo.Categorical(("slow", "medium", "fast"), ordered=True)
    assert imported.space["l"] == space["l"] and len(imported.trials) == 24


def test_names_are_written_with_the_characters_that_mlflow_allows() -> None:
    from fedbo.integrations.mlflow import param_keys

    names = ["Temp (°C)", "Stir speed", "a[0]", "a_0_", "x.y/z"]
    assert list(param_keys(names).values()) == ["Temp __C_", "Stir speed", "a_0_", "a_0__3", "x.y/z"]
