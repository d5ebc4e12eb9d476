"""fedbo in scikit-learn."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator, ClassifierMixin, clone  # noqa: E402
from sklearn.datasets import load_iris, make_classification  # noqa: E402
from sklearn.exceptions import FitFailedWarning  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.model_selection import cross_val_score  # noqa: E402
from sklearn.pipeline import Pipeline  # noqa: E402
from sklearn.preprocessing import MinMaxScaler, StandardScaler  # noqa: E402
from sklearn.svm import SVC  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

import fedbo  # noqa: E402
from fedbo.integrations.sklearn import FedboSearchCV  # noqa: E402

X, Y = load_iris(return_X_y=True)
TREE = {"max_depth": fedbo.Int(1, 6), "criterion": ["gini", "entropy"]}


class Peak(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fake estimator with a known score. It can fail."""

    def __init__(self, x: float = 0.0, fails_above: float = 9.0, kind: Any = None) -> None:
        self.x = x
        self.fails_above = fails_above
        self.kind = kind

    def fit(self, data: Any, target: Any) -> Peak:
        if self.x > self.fails_above:
            raise RuntimeError("no fit up there")
        self.classes_ = np.unique(target)
        return self

    def predict(self, data: Any) -> Any:
        return np.zeros(len(data))

    def score(self, data: Any, target: Any, sample_weight: Any = None) -> float:
        return -((self.x - 0.5) ** 2)


PEAK = {"x": fedbo.Float(-2, 2)}


def expected_failures(search: Any) -> dict[str, str]:
    if isinstance(search.estimator, Ridge):
        return {"check_supervised_y_2d": "Ridge takes several targets, which the search does not know: as GridSearchCV"}
    return {}


@parametrize_with_checks(
    [
        FedboSearchCV(LogisticRegression(), {"C": fedbo.Float(0.1, 10, log=True)}, n_trials=2, cv=2, random_state=0),
        FedboSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, n_trials=2, batch_size=2, cv=2, random_state=0, error_score="raise"),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_it_finds_the_best_point() -> None:
    search = FedboSearchCV(Peak(), PEAK, n_trials=20, cv=3, random_state=0).fit(X, Y)
    assert abs(search.best_params_["x"] - 0.5) < 0.1
    assert search.best_estimator_.x == search.best_params_["x"]
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert search.best_index_ == int(np.argmax(search.cv_results_["mean_test_score"]))
    assert len(search.cv_results_["params"]) == 20
    assert list(search.cv_results_["source"][:5]) == ["initial"] * 5
    assert search.cv_results_["source"][-1] == "own"
    assert search.failed_params_ == []


def test_a_search_of_a_real_estimator() -> None:
    space = {"C": fedbo.Float(1e-3, 1e3, log=True), "kernel": ["rbf", "linear"]}
    search = FedboSearchCV(SVC(), space, n_trials=12, random_state=0, n_jobs=2, return_train_score=True).fit(X, Y)
    assert search.best_score_ > 0.95
    assert search.score(X, Y) > 0.95 and len(search.predict(X)) == len(X)
    assert "mean_train_score" in search.cv_results_


def test_equal_states_give_equal_searches() -> None:
    def params(state: Any) -> Any:
        search = FedboSearchCV(Peak(), PEAK, n_trials=8, cv=2, random_state=state)
        return search.fit(X, Y).cv_results_["params"]

    assert params(1) == params(1) == params(1)
    assert params(1) != params(2)
    assert params(np.random.RandomState(4)) == params(np.random.RandomState(4))
    params(None)


def test_candidates_of_a_batch_differ_and_the_last_batch_is_cut() -> None:
    search = FedboSearchCV(Peak(), {"x": fedbo.Int(-4, 4)}, n_trials=7, batch_size=4, cv=2, random_state=0).fit(X, Y)
    tried = [params["x"] for params in search.cv_results_["params"]]
    assert len(tried) == len(set(tried)) == 7


def test_a_search_ends_where_every_candidate_was_tried() -> None:
    search = FedboSearchCV(DecisionTreeClassifier(random_state=0), TREE, n_trials=50, batch_size=5, random_state=0).fit(X, Y)
    assert len(search.cv_results_["params"]) == 12
    noisy = FedboSearchCV(DecisionTreeClassifier(), {"criterion": ["gini", "entropy"]}, n_trials=5, noisy=True, random_state=0)
    assert len(noisy.fit(X, Y).cv_results_["params"]) == 5


def test_pipelines_and_choices_of_any_type() -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("svm", SVC())])
    space = {"scale": [StandardScaler(), MinMaxScaler(), None, "passthrough"], "svm__C": fedbo.Float(0.01, 100, log=True)}
    search = FedboSearchCV(pipeline, space, n_trials=10, random_state=0).fit(X, Y)
    assert search.best_estimator_.named_steps["svm"].C == search.best_params_["svm__C"]
    tried = {type(params["scale"]).__name__ for params in search.cv_results_["params"]}
    assert len(tried) > 2


def test_several_scores() -> None:
    data, target = make_classification(200, random_state=0)
    scoring = {"accuracy": "accuracy", "auc": "roc_auc"}
    search = FedboSearchCV(DecisionTreeClassifier(random_state=0), TREE, n_trials=8, scoring=scoring, refit="auc", random_state=0)
    search.fit(data, target)
    assert search.best_score_ == max(search.cv_results_["mean_test_auc"])
    assert "mean_test_accuracy" in search.cv_results_
    for refit in (True, False):
        with pytest.raises(ValueError, match="refit"):
            clone(search).set_params(refit=refit).fit(data, target)

    def scores(estimator: Any, data: Any, target: Any) -> dict[str, float]:
        return {"a": float(estimator.score(data, target)), "b": 0.0}

    search = FedboSearchCV(Peak(), PEAK, n_trials=12, scoring=scores, refit="a", cv=2, random_state=0).fit(X, Y)
    assert abs(search.best_params_["x"] - 0.5) < 0.3


def test_without_a_refit_there_is_no_best_estimator() -> None:
    search = FedboSearchCV(Peak(), PEAK, n_trials=6, refit=False, cv=2, random_state=0).fit(X, Y)
    assert not hasattr(search, "best_estimator_") and "x" in search.best_params_
    by_rule = FedboSearchCV(Peak(), PEAK, n_trials=6, refit=lambda results: 3, cv=2, random_state=0).fit(X, Y)
    assert by_rule.best_index_ == 3


@pytest.mark.filterwarnings("ignore:One or more of the test scores:UserWarning")
def test_failed_fits_are_failures() -> None:
    search = FedboSearchCV(Peak(fails_above=1.0), PEAK, n_trials=20, cv=2, random_state=0)
    with pytest.warns(FitFailedWarning, match="'x'"):
        search.fit(X, Y)
    failed = [params["x"] for params in search.failed_params_]
    assert failed and all(x > 1 for x in failed)
    assert len(failed) + len(search.cv_results_["params"]) == 20
    assert abs(search.best_params_["x"] - 0.5) < 0.1
    # In a batch with successful fits, a failure has a row.
    batches = FedboSearchCV(Peak(fails_above=1.0), PEAK, n_trials=8, batch_size=8, cv=2, random_state=0)
    with pytest.warns(FitFailedWarning):
        batches.fit(X, Y)
    assert np.isnan(batches.cv_results_["mean_test_score"]).any() and not batches.failed_params_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_an_estimator_that_never_fits_is_an_error() -> None:
    for n_trials in (3, 30):
        with pytest.raises(ValueError, match="no fit up there"):
            FedboSearchCV(Peak(fails_above=-9.0), PEAK, n_trials=n_trials, cv=2, random_state=0).fit(X, Y)
    with pytest.raises(RuntimeError, match="no fit up there"):
        FedboSearchCV(Peak(fails_above=-9.0), PEAK, cv=2, error_score="raise").fit(X, Y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"param_space": {"x": fedbo.Float(1, -1)}}, "1"),
        ({"param_space": {"x": (0, 1)}}, "ambiguous"),
        ({"param_space": {"x": 3}}, "'x'"),
        ({"param_space": {}}, "param_space"),
        ({"param_space": {"depth": [1, 2]}}, "depth"),
        ({"n_trials": 0}, "n_trials=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"strategy": "log-eye"}, "log-ei"),
        ({"n_trials": "many"}, "n_trials"),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], message: str) -> None:
    search = FedboSearchCV(Peak(), PEAK, cv=2).set_params(**given)
    with pytest.raises((TypeError, ValueError), match=message):
        search.fit(X, Y)


def test_it_is_cloned_pickled_and_nested() -> None:
    search = FedboSearchCV(Peak(), PEAK, n_trials=6, cv=2, random_state=0, strategy="ts", strategy_options=None)
    again = pickle.loads(pickle.dumps(clone(search).fit(X, Y)))
    assert again.best_params_ == search.fit(X, Y).best_params_
    assert len(cross_val_score(search, X, Y, cv=2)) == 2
    assert "n_trials=6" in repr(search)


def test_it_is_reached_from_the_package_without_an_import() -> None:
    program = """
import sys, fedbo
assert not {"sklearn", "numpy", "fedbo.integrations"} & sys.modules.keys()
print(fedbo.FedboSearchCV.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "FedboSearchCV"
    assert "FedboSearchCV" in dir(fedbo)
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        fedbo.nothing_of_this_name  # noqa: B018
