"""fedbo in scikit-learn: a hyperparameter search with cross-validation.

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
"""Number of initial batches without a successful fit after which the search raises the error."""

ALL_FAILED = "fits failed.\nIt is very likely that your model is misconfigured."
"""Part of scikit-learn's error message for a batch without a successful fit."""


class FedboSearchCV(BaseSearchCV):
    """A hyperparameter search that proposes candidates with a fedbo strategy.

    It is used like ``RandomizedSearchCV`` and has the same attributes after ``fit``. In addition, ``cv_results_["source"]`` has the
    source of each candidate.

    ``estimator``
        The estimator, or a pipeline with parameters named ``step__parameter``.
    ``param_space``
        Parameters by name: ``fedbo.Float``, ``fedbo.Int``, ``fedbo.Categorical``, or a list of choices of any type.
    ``n_trials``
        Number of candidates.
    ``batch_size``
        Number of candidates that are proposed and evaluated together. Each is proposed with the others as open points. ``n_jobs``
        parallelizes over all folds of a batch.
    ``strategy``, ``strategy_options``
        The strategy, by its name in a ``study.toml`` (``log-ei`` by default), and its options there.
    ``n_startup_trials``
        Number of initial points from a Sobol sequence. Defaults to two per parameter, but at least 5 and at most 20.
    ``noisy``
        True if repeated evaluations of a candidate give different scores, for instance because the splitter shuffles each time.
        Candidates may then be tried again. If False, the search ends when all candidates were tried.
    ``scoring``, ``refit``
        As in scikit-learn. With several scores, ``refit`` is the name of the one to maximize.
    ``n_jobs``, ``cv``, ``verbose``, ``pre_dispatch``, ``random_state``, ``error_score``, ``return_train_score``
        As in ``RandomizedSearchCV``.

    A candidate without a finite mean score has failed. It is not tried again, and the search avoids regions with many failures. If
    all fits of a batch fail, scikit-learn raises an error. The search then logs a warning and continues; the candidates are missing from
    ``cv_results_`` and are listed in the attribute ``failed_params_``. The search raises scikit-learn's error if all fits of the first
    five batches or of all batches fail, or with ``error_score="raise"``.
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
        """Propose and evaluate batches of candidates until there are ``n_trials``."""
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
                return  # all candidates were tried
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
                f"refit={self.refit!r}: a search with several scores maximizes one of them; name it with refit="
            )
        return self.refit


def _parameter(name: str, given: object) -> Parameter:
    # Choices may have any type here. A tuple of two is checked as elsewhere, because it may be meant as a range.
    # A range of integers is an interval, and every other list has unordered choices.
    if isinstance(given, (list, tuple)) and not (isinstance(given, tuple) and len(given) == 2):
        return choices(given)
    return _space.parameter(name, given)
