"""Conditional parameters: declarations, studies, and the samplers of other packages."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fedbo

TREE: dict[str, Any] = {
    "booster": ["gbtree", "dart", None],
    "rate_drop": fedbo.Float(0.0, 0.5, when={"booster": "dart"}),
    "depth": fedbo.Int(1, 4, when={"booster": ["gbtree", "dart"]}),
    "kind": fedbo.Categorical([(1, 2), "b"], when={"booster": None}),
    "width": fedbo.Int(values=[8, 64], when={"depth": [3, 4], "booster": "dart"}),
    "eta": fedbo.Float(0.01, 1.0, log=True),
}


def expected(params: Mapping[str, Any]) -> set[str]:
    """Return the names of the parameters that exist."""
    names = {"booster", "eta"}
    booster = params["booster"]
    if booster is None:
        return names | {"kind"}
    names |= {"depth"}
    if booster == "dart":
        names |= {"rate_drop"} | ({"width"} if params["depth"] >= 3 else set())
    return names


def objective(params: Mapping[str, Any]) -> float:
    assert params.keys() == expected(params)
    return float((params["eta"] - 0.1) ** 2 + params.get("rate_drop", 0.1) + (params["booster"] is None))


def test_points_have_the_parameters_that_exist(tmp_path: Path) -> None:
    storage = f"sqlite:{tmp_path / 'tree.db'}"
    study = fedbo.Study("tree", TREE, storage=storage, direction="minimize")
    study.optimize(objective, n_trials=25)
    assert {trial.params["booster"] for trial in study.trials} == {"gbtree", "dart", None}
    assert all(trial.params.keys() == expected(trial.params) for trial in study.trials)
    assert study.best_params.keys() == expected(study.best_params)
    assert study.space["rate_drop"] == TREE["rate_drop"] and study.space["width"] == TREE["width"]
    assert study.space["kind"].when == {"booster": None}
    loaded = fedbo.Study.load(storage, "tree").space
    assert loaded["rate_drop"] == TREE["rate_drop"]
    assert loaded["kind"].when == {"booster": "None"}  # a storage has the texts of choices
    again = fedbo.Study("tree", study.space, storage=storage, direction="minimize")
    assert len(again.trials) == 25


def test_points_by_hand_have_them_too() -> None:
    study = fedbo.Study("tree", TREE, direction="minimize")
    trial = study.enqueue({"booster": None, "kind": (1, 2), "eta": 0.1})
    assert trial.params == {"booster": None, "kind": (1, 2), "eta": 0.1}
    with pytest.raises(fedbo.DefinitionError, match="depth = 2, but it exists only when"):
        study.enqueue({"booster": None, "kind": "b", "eta": 0.1, "depth": 2})
    with pytest.raises(fedbo.DefinitionError, match="lacks parameter kind"):
        study.enqueue({"booster": None, "eta": 0.1})


def test_declarations_are_compared_copied_and_checked() -> None:
    dart = fedbo.Float(0.0, 0.5, when={"booster": "dart"})
    assert dart == fedbo.Float(0.0, 0.5, when={"booster": "dart"}) != fedbo.Float(0.0, 0.5)
    assert hash(dart) == hash(fedbo.Float(0.0, 0.5, when={"booster": "dart"}))
    assert pickle.loads(pickle.dumps(dart)) == copy.deepcopy(dart) == dart
    assert fedbo.Int(1, 2, when={}).when is None
    with pytest.raises(TypeError, match="expected a dict of parents"):
        fedbo.Int(1, 2, when="dart")  # type: ignore[arg-type]
    for when, says in [
        ({"booster": "tree"}, "when.booster = .*expected one of gbtree, dart"),
        ({"boster": "dart"}, "expected the name of another parameter: booster"),
    ]:
        space: dict[str, Any] = {"booster": ["gbtree", "dart"], "x": fedbo.Float(0, 1, when=when)}
        with pytest.raises(fedbo.DefinitionError, match=says):
            fedbo.Study("tree", space, direction="minimize")


def suggested(trial: Any) -> float:
    """An objective for Optuna that suggests parameters inside an ``if``."""
    booster = trial.suggest_categorical("booster", ["gbtree", "dart"])
    value: float = (trial.suggest_float("eta", 0.01, 1.0, log=True) - 0.1) ** 2
    if booster == "dart":
        value += (trial.suggest_float("rate_drop", 0.0, 0.5) - 0.2) ** 2 - 0.01
    return value


SUGGESTED: dict[str, Any] = {
    "booster": ["gbtree", "dart"],
    "eta": fedbo.Float(0.01, 1.0, log=True),
    "rate_drop": fedbo.Float(0.0, 0.5, when={"booster": "dart"}),
}


def test_optuna_samples_each_branch(caplog: pytest.LogCaptureFixture) -> None:
    optuna = pytest.importorskip("optuna")
    from fedbo.integrations.optuna import FedboSampler, import_study

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=FedboSampler(SUGGESTED, seed=1))
    study.optimize(suggested, n_trials=25)
    for trial in study.trials:
        assert ("rate_drop" in trial.params) == (trial.params["booster"] == "dart")
    assert not caplog.records  # nothing was sampled independently
    assert all(trial.user_attrs["fedbo:source"] in ("initial", "own", "random") for trial in study.trials)
    assert any(trial.user_attrs["fedbo:source"] == "own" for trial in study.trials)
    assert study.best_params["booster"] == "dart" and study.best_value < -0.005
    imported = import_study(study, name="tree", space=SUGGESTED)
    assert len(imported.trials) == 25
    assert imported.space["rate_drop"] == SUGGESTED["rate_drop"]


def test_optuna_samples_what_the_tree_does_not_have_independently(caplog: pytest.LogCaptureFixture) -> None:
    optuna = pytest.importorskip("optuna")
    from fedbo.integrations.optuna import FedboSampler

    study = optuna.create_study(sampler=FedboSampler(SUGGESTED, seed=1, n_startup_trials=4))

    def everywhere(trial: Any) -> float:
        trial.suggest_float("rate_drop", 0.0, 0.5)
        return suggested(trial)

    study.optimize(everywhere, n_trials=12)
    assert any(trial.user_attrs["fedbo:source"] == "own" for trial in study.trials)
    assert sum("'rate_drop'" in record.getMessage() for record in caplog.records) == 1


def test_a_parent_with_a_single_value_always_holds() -> None:
    from fedbo.integrations._queries import Queries

    def proposed(booster: str) -> dict[str, Any]:
        space: dict[str, Any] = {
            "booster": fedbo.Categorical([booster]),
            "rate": fedbo.Float(0.0, 0.5, when={"booster": booster}),
            "x": fedbo.Float(0.0, 1.0),
        }
        queries = Queries(
            "test", space, direction="minimize", strategy=None, strategy_options=None, seed=0, initial=None, noisy=False
        )
        found = queries.propose([], [], 0)
        assert found is not None
        return queries.decode(found[0])

    assert proposed("dart").keys() == {"booster", "rate", "x"}


def test_scikit_learn_leaves_absent_parameters_at_their_defaults() -> None:
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_iris
    from sklearn.svm import SVC

    from fedbo.integrations.sklearn import FedboSearchCV

    space = {
        "kernel": ["rbf", "linear"],
        "gamma": fedbo.Float(1e-3, 1.0, log=True, when={"kernel": "rbf"}),
        "C": fedbo.Float(0.1, 10.0, log=True),
    }
    search = FedboSearchCV(SVC(), space, n_trials=10, cv=3, random_state=0)
    search.fit(*load_iris(return_X_y=True))
    for params in search.cv_results_["params"]:
        assert ("gamma" in params) == (params["kernel"] == "rbf")
    masked = search.cv_results_["param_gamma"]
    assert 0 < masked.mask.sum() < len(masked)
