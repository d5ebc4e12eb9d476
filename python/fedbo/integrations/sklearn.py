"""fedbo inside scikit-learn: a search for hyperparameters by cross-validation.

    from sklearn.datasets import load_iris
    from sklearn.svm import SVC
    import fedbo
    from fedbo.integrations.sklearn import FedboSearchCV

    space = {"C": fedbo.Float(1e-3, 1e3, log=True), "kernel": ["rbf", "linear"]}
    search = FedboSearchCV(SVC(), space, n_trials=20, random_state=0)
    search.fit(*load_iris(return_X_y=True))
    print(search.best_params_, search.best_score_)
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from fedbo.integrations import missing

try:
    from sklearn.exceptions import FitFailedWarning
except ModuleNotFoundError as error:
    if error.name != "sklearn":
        raise
    raise missing("scikit-learn", "sklearn") from error

from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state

from fedbo import _space
from fedbo._errors import DefinitionError
from fedbo._space import Parameter
from fedbo.integrations._queries import Code, Ended, Queries, choices

__all__ = ["FedboSearchCV"]

BATCHES_FAILED_MAX = 5
"""The number of batches without a single fit, before the first score, after which the estimator is at fault."""

ALL_FAILED = "fits failed.\nIt is very likely that your model is misconfigured."
"""scikit-learn's words for a batch of which no fit succeeded."""


class FedboSearchCV(BaseSearchCV):
    """A search for the hyperparameters of an estimator that asks a strategy of fedbo for the next ones.

    It is used as ``RandomizedSearchCV`` is, and has the attributes of that class after ``fit``; further,
    ``cv_results_["source"]`` names the source of each candidate.

    ``estimator``
        The estimator, or a pipeline, whose parameters are named ``step__parameter``.
    ``param_space``
        A parameter for each name: ``fedbo.Float``, ``fedbo.Int``, ``fedbo.Categorical``, or a list of choices of any type.
    ``n_trials``
        Number of candidates.
    ``batch_size``
        Candidates that are chosen and evaluated at once, each with the others as open points. ``n_jobs`` works on all folds of a
        batch.
    ``strategy``, ``strategy_options``
        The strategy, by its name in a ``study.toml`` (``log-ei`` by default), and its options there.
    ``n_startup_trials``
        Number of initial points of a Sobol sequence; by default two for each coordinate, from 5 to 20.
    ``noisy``
        True if scores of one candidate differ, as with a splitter that shuffles anew each time: candidates may then be tried
        again. If not, the search ends where none is left.
    ``scoring``, ``refit``
        As in scikit-learn. With several scores, ``refit`` is the name of the one to maximize.
    ``n_jobs``, ``cv``, ``verbose``, ``pre_dispatch``, ``random_state``, ``error_score``, ``return_train_score``
        As in ``RandomizedSearchCV``.

    A candidate without a finite mean score has failed: it is not tried again, and the search keeps away from places where many
    fail. scikit-learn refuses a batch of which every fit failed. The search then goes on, after a warning; the candidates have no
    row in ``cv_results_`` and stand in the attribute ``failed_params_``. It ends with scikit-learn's error if the first five
    batches fail so, or with ``error_score="raise"``.
    """

    _parameter_constraints: dict[str, Any] = {
        **BaseSearchCV._parameter_constraints,
        "param_space": [Mapping],
        "n_trials": [numbers.Integral],
        "batch_size": [numbers.Integral],
        "strategy": [str, None],
        "strategy_options": [Mapping, None],
        "n_startup_trials": [numbers.Integral, None],
        "noisy": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        param_space: Mapping[str, Any],
        *,
        n_trials: int = 50,
        batch_size: int = 1,
        strategy: str | None = None,
        strategy_options: Mapping[str, object] | None = None,
        n_startup_trials: int | None = None,
        noisy: bool = False,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: bool | str | Callable[[Mapping[str, Any]], int] = True,
        cv: Any = None,
        verbose: int = 0,
        pre_dispatch: int | str = "2*n_jobs",
        random_state: Any = None,
        error_score: float | str = math.nan,
        return_train_score: bool = False,
    ) -> None:
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,  # pyright: ignore[reportArgumentType]
            cv=cv,
            verbose=verbose,
            pre_dispatch=pre_dispatch,  # pyright: ignore[reportArgumentType]
            error_score=error_score,  # pyright: ignore[reportArgumentType]
            return_train_score=return_train_score,
        )
        self.param_space = param_space
        self.n_trials = n_trials
        self.batch_size = batch_size
        self.strategy = strategy
        self.strategy_options = strategy_options
        self.n_startup_trials = n_startup_trials
        self.noisy = noisy
        self.random_state = random_state

    def _run_search(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, evaluate_candidates: Callable[..., Mapping[str, Any]]
    ) -> None:
        """Ask for candidates, evaluate them, and tell their scores, until there are enough."""
        for key in ("n_trials", "batch_size"):
            if getattr(self, key) < 1:
                raise DefinitionError(f"{key}={getattr(self, key)}, expected a number of at least 1")
        if not self.param_space:
            raise DefinitionError("param_space is empty; give it at least one parameter")
        if isinstance(self.scoring, (list, tuple, dict)):
            self._check_refit()
        queries = Queries(
            "FedboSearchCV",
            {name: _parameter(name, given) for name, given in self.param_space.items()},
            direction="maximize",
            strategy=self.strategy,
            strategy_options=self.strategy_options,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            initial=self.n_startup_trials,
            noisy=self.noisy,
        )
        told: list[Ended] = []
        self.failed_params_: list[dict[str, Any]] = []
        n_scored = n_batches = 0
        while len(told) < self.n_trials:
            batch: list[tuple[Code, str]] = []
            while len(batch) < min(self.batch_size, self.n_trials - len(told)):
                open_points = [code for code, _ in batch]
                proposed = queries.propose(told, open_points, len(told) + len(batch))
                if proposed is None:
                    break
                batch.append(proposed)
            if not batch:
                return  # every candidate was tried
            candidates = [queries.decode(code) for code, _ in batch]
            sources = [source for _, source in batch]
            n_batches += 1
            try:
                results = evaluate_candidates(candidates, more_results={"source": sources})
            except ValueError as error:
                is_first = n_scored == 0 and n_batches >= BATCHES_FAILED_MAX
                is_last = n_scored == 0 and len(told) + len(batch) >= self.n_trials
                if ALL_FAILED not in str(error) or is_first or is_last:
                    raise
                warnings.warn(f"{candidates}: {str(error).strip()}", FitFailedWarning, stacklevel=2)
                self.failed_params_ += candidates
                told += [(code, None, source) for code, source in batch]
                continue
            scores = results[self._score_key(results)][n_scored:]
            n_scored += len(batch)
            told += [
                (code, float(score) if math.isfinite(score) else None, source)
                for (code, source), score in zip(batch, scores, strict=True)
            ]

    def _score_key(self, results: Mapping[str, Any]) -> str:
        if "mean_test_score" in results:
            return "mean_test_score"
        return f"mean_test_{self._check_refit()}"

    def _check_refit(self) -> str:
        if not isinstance(self.refit, str):
            raise DefinitionError(
                f"refit={self.refit!r}: a search with several scores maximizes one of them; name it by refit="
            )
        return self.refit


def _parameter(name: str, given: object) -> Parameter:
    # Choices may be of any type here, but a range is written as elsewhere.
    if isinstance(given, (list, tuple)) and not (isinstance(given, tuple) and len(given) == 2):
        return choices(given)
    return _space.parameter(name, given)
