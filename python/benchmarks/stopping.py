"""Compares early stopping rules of fedbo with Optuna's pruners on LightGBM, at equal numbers of epochs.

    pip install lightgbm scikit-learn optuna
    python benchmarks/stopping.py [--seeds 10] [--epochs 40] [--trainings 20] [--jobs 2]

The task is the classification of scikit-learn's ten digits with seven hyperparameters. The data is split into halves
for training and evaluation; the value is the log loss on the second half. An epoch is one boosting round. Each arm
trains until it has used the epochs of the given number of complete trainings. Its loss is the best one among complete
trainings, after a quarter, a half and all of the epochs. The difference to the corresponding pruner of Optuna is paired
by seeds, which also determine the split. Losses are means and standard errors over seeds. Counts are medians: the
number of trials, the number of stopped trials, and the number of different points among the last 20 trials. Two points
count as one if all coordinates differ by at most .02.
"""

from __future__ import annotations

import argparse
import logging
import math
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import fedbo

# Name, low, high, whether it is logarithmic, whether it is an integer.
SPACE = [
    ("learning_rate", 1e-3, 1.0, True, False),
    ("num_leaves", 2, 128, True, True),
    ("min_child_samples", 1, 100, True, True),
    ("colsample_bytree", 0.05, 1.0, False, False),
    ("subsample", 0.1, 1.0, False, False),
    ("reg_lambda", 1e-3, 100.0, True, False),
    ("min_split_gain", 1e-4, 10.0, True, False),
]
OPTUNA = ["no pruner", "median", "successive halving", "hyperband"]
# The rules of fedbo, each with the pruner to compare it with.
RIVALS = {"none": "no pruner", "median": "median", "asha": "successive halving", "hyperband": "hyperband", "bo-bos": "median"}

Report = Callable[[int, float], bool]


class Stopped(Exception):
    """Raised to end a training."""


def boost(params: dict[str, float], epochs: int, seed: int, report: Report) -> None:
    """Train, and report the log loss after each boosting round until a report returns True."""
    import lightgbm
    import numpy as np
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, judge = np.split(order, [len(y) // 2])
    settings = {"objective": "multiclass", "num_class": 10, "subsample_freq": 1, "num_threads": 1, "verbosity": -1, "seed": seed}

    def each_round(env: lightgbm.callback.CallbackEnv) -> None:
        [(_, _, loss, _)] = env.evaluation_result_list
        if report(env.iteration + 1, loss):
            raise Stopped

    data = lightgbm.Dataset(x[train], y[train])
    try:
        lightgbm.train(
            {**settings, **params}, data, epochs, valid_sets=[data.create_valid(x[judge], y[judge])], callbacks=[each_round]
        )
    except Stopped:
        pass


class Run:
    """Epochs used and results found by an arm."""

    def __init__(self, seed: int, epochs: int, budget: int) -> None:
        self.seed, self.epochs, self.budget = seed, epochs, budget
        self.used = 0
        self.best: list[tuple[int, float]] = [(0, math.inf)]
        self.points: list[list[float]] = []
        self.n_stopped = 0

    def train(self, params: dict[str, float], report: Report) -> float | None:
        """Return the final value, or None if the training was stopped."""
        scaled = [
            (math.log(params[name] / low) / math.log(high / low)) if log else (params[name] - low) / (high - low)
            for name, low, high, log, _ in SPACE
        ]
        self.points.append(scaled)
        losses: list[float] = []

        def counted(epoch: int, loss: float) -> bool:
            losses.append(loss)
            return report(epoch, loss)

        boost(params, self.epochs, self.seed, counted)
        self.used += len(losses)
        if len(losses) < self.epochs:
            self.n_stopped += 1
            return None
        self.best.append((self.used, min(losses[-1], self.best[-1][1])))
        return losses[-1]

    @property
    def is_over(self) -> bool:
        return self.used >= self.budget

    def at(self, share: float) -> float:
        """Return the best loss after a share of the epochs, which is infinite before the first complete training."""
        return min(best for used, best in self.best if used <= share * self.budget)

    def n_different(self) -> int:
        different: list[list[float]] = []
        for point in self.points[-20:]:
            if not any(all(abs(a - b) <= 0.02 for a, b in zip(point, other)) for other in different):
                different.append(point)
        return len(different)


def by_fedbo(rule: str, run: Run) -> None:
    space = {
        name: fedbo.Int(int(low), int(high), log=log) if whole else fedbo.Float(low, high, log=log)
        for name, low, high, log, whole in SPACE
    }
    stopping = None if rule == "none" else {"rule": rule, "epochs": run.epochs}
    study = fedbo.Study("boosting", space, direction="minimize", seed=run.seed, early_stopping=stopping)
    while not run.is_over:
        trial = study.ask()
        report: Report = (lambda _epoch, _value: False) if stopping is None else trial.report
        value = run.train(dict(trial.params), report)
        if value is not None:
            study.tell(trial, value)


def by_optuna(pruner: str, run: Run) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruners = {
        "no pruner": optuna.pruners.NopPruner(),
        "median": optuna.pruners.MedianPruner(),
        "successive halving": optuna.pruners.SuccessiveHalvingPruner(),
        "hyperband": optuna.pruners.HyperbandPruner(max_resource=run.epochs),
    }
    # The name determines Hyperband's brackets.
    sampler = optuna.samplers.TPESampler(seed=run.seed)
    study = optuna.create_study(study_name="boosting", direction="minimize", sampler=sampler, pruner=pruners[pruner])
    while not run.is_over:
        trial = study.ask()
        params = {
            name: trial.suggest_int(name, int(low), int(high), log=log) if whole else trial.suggest_float(name, low, high, log=log)
            for name, low, high, log, whole in SPACE
        }

        def report(epoch: int, value: float, trial: optuna.Trial = trial) -> bool:
            trial.report(value, epoch)
            return trial.should_prune()

        value = run.train(params, report)
        if value is None:
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, value)


def measure(job: tuple[str, str, int, int, int]) -> tuple[list[float], int, int, int]:
    package, arm, seed, epochs, budget = job
    logging.disable(logging.CRITICAL)
    run = Run(seed, epochs, budget)
    (by_fedbo if package == "fedbo" else by_optuna)(arm, run)
    return [run.at(share) for share in (0.25, 0.5, 1.0)], len(run.points), run.n_stopped, run.n_different()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--trainings", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--arms", default=None, help="for instance fedbo:asha,optuna:median")
    chosen = parser.parse_args()
    arms = [("optuna", arm) for arm in OPTUNA] + [("fedbo", arm) for arm in RIVALS]
    if chosen.arms:
        arms = [tuple(arm.split(":")) for arm in chosen.arms.split(",")]
    print("| package | rule | loss after a quarter | a half | all of the epochs | − optuna's | trials | stopped | different of the last 20 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    ends: dict[tuple[str, str], list[float]] = {}
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for package, arm in arms:
            jobs = [(package, arm, seed, chosen.epochs, chosen.epochs * chosen.trainings) for seed in range(chosen.seeds)]
            runs = list(pool.map(measure, jobs))
            cells = [in_words([losses[place] for losses, *_ in runs]) for place in range(3)]
            ends[package, arm] = [losses[-1] for losses, *_ in runs]
            rival = ends.get(("optuna", RIVALS[arm])) if package == "fedbo" else None
            cells.append("" if rival is None else in_words([own - other for own, other in zip(ends[package, arm], rival)]))
            counts = [f"{statistics.median(run[place] for run in runs):g}" for place in (1, 2, 3)]
            print(f"| {package} | {arm} |", " | ".join([*cells, *counts]), "|", flush=True)


def in_words(values: list[float]) -> str:
    """Format the mean and its standard error."""
    error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{statistics.fmean(values):.4f} ± {error:.4f}"


if __name__ == "__main__":
    main()
