"""Measures the regret if crashes are reported as large values, for several sizes of the value, and results without crashes.

    python benchmarks/penalties.py [--runs 9] [--trials 40] [--rows log-ei,ts,...] [--penalties fail,1,10,1e3,...] [--clean]

The objective is (x − 0.3)² + (y − 0.7)² on the unit square. It crashes if x + y > 1.2; a crash is reported as the
column's value, or as a failed trial ("fail"). Numbers are medians over runs of the best value after all trials. Rows
are strategies; early stopping by "median" with its default strategy; strategies that learn from an old study with
crashes reported in the same way; and federations of three parties with similar functions, with the median of their best
values.

With --clean, prints log10 of the gap to the minimum after all trials of log-ei on six functions without crashes: mean
and standard error.
"""

from __future__ import annotations

import argparse
import logging
import math
import statistics
import sys
from collections.abc import Callable

import fedbo

SPACE = {"x": fedbo.Float(0, 1), "y": fedbo.Float(0, 1)}
PENALTIES = ["fail", "1", "10", "1e3", "1e6", "1e9", "1e12"]
STRATEGIES = ["log-ei", "ts", "gp-ucb"]
META = ["rgpe", "taf", "shared-prior"]
ROWS = [*STRATEGIES, "early stopping", *(f"{name}, old study" for name in META), *(f"{name}, federation" for name in ("shared-prior", "fts"))]
EPOCHS = 5


def gap(x: float, y: float, at: tuple[float, float] = (0.3, 0.7)) -> float:
    return (x - at[0]) ** 2 + (y - at[1]) ** 2


def objective(penalty: str, at: tuple[float, float] = (0.3, 0.7)) -> Callable[[fedbo.Params], float]:
    """Return the objective, which crashes in a corner."""

    def value(params: fedbo.Params) -> float:
        x, y = float(params["x"]), float(params["y"])
        if x + y <= 1.2:
            return gap(x, y, at)
        return math.nan if penalty == "fail" else float(penalty)

    return value


def stopped_early(penalty: str, seed: int, trials: int) -> float:
    study = fedbo.Study("e", SPACE, direction="minimize", seed=seed, early_stopping={"rule": "median", "epochs": EPOCHS})
    final = objective(penalty)

    def train(trial: fedbo.Trial) -> float:
        value = final(trial.params)
        if math.isnan(value):
            return value
        for epoch in range(1, EPOCHS + 1):
            if trial.report(epoch, value + 0.001 / epoch):
                break
        return value

    study.optimize(train, n_trials=trials, failures_max=0)
    return float(study.best_value)


def alone(penalty: str, seed: int, trials: int, strategy: str) -> float:
    study = fedbo.Study("s", SPACE, direction="minimize", seed=seed, strategy=strategy)
    study.optimize(objective(penalty), n_trials=trials, failures_max=0)
    return float(study.best_value)


def after_another(penalty: str, seed: int, trials: int, strategy: str) -> float:
    """Return the best value of a study that learns from an old study of the same function with a slightly shifted minimum."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        old = fedbo.Study("old", SPACE, direction="minimize", seed=100 + seed, storage=f"sqlite:{folder}/old.db")
        old.optimize(objective(penalty, (0.35, 0.65)), n_trials=30, failures_max=0)
        study = fedbo.Study("new", SPACE, direction="minimize", seed=seed, strategy=strategy, old_studies=[f"sqlite:{folder}/old.db"])
        study.optimize(objective(penalty), n_trials=trials, failures_max=0)
        return float(study.best_value)


def together(penalty: str, seed: int, trials: int, algorithm: str) -> float:
    """Return the median of the parties' best values."""
    initial = 5
    labs = fedbo.Federation(
        "labs",
        SPACE,
        agents=["north", "south", "east"],
        algorithm=algorithm,
        rounds=trials - initial,
        initial=initial,
        direction="minimize",
        seed=seed,
    )
    at = {"north": (0.3, 0.7), "south": (0.33, 0.7), "east": (0.3, 0.67)}
    functions = {name: objective(penalty, at[name]) for name in labs.agents}
    rows = labs.simulate(functions, arms=[algorithm], failures_max=0).rows
    best = {name: math.inf for name in labs.agents}
    for row in rows:
        if row.value is not None:
            best[row.agent] = min(best[row.agent], row.value)
    return statistics.median(best.values())


def regret(row: str, penalty: str, seed: int, trials: int) -> float:
    if row == "early stopping":
        return stopped_early(penalty, seed, trials)
    name, _, way = row.partition(", ")
    if way == "old study":
        return after_another(penalty, seed, trials, name)
    if way == "federation":
        return together(penalty, seed, trials, name)
    return alone(penalty, seed, trials, name)


def branin(u: list[float]) -> float:
    x, y = -5 + 15 * u[0], 15 * u[1]
    bowl = (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6) ** 2
    return bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 - 0.397887


def rosenbrock(u: list[float]) -> float:
    z = [4 * each - 2 for each in u]
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(z, z[1:]))


def ackley(u: list[float]) -> float:
    z = [20 * each - 8 for each in u]
    root = math.sqrt(statistics.fmean(each * each for each in z))
    return -20 * math.exp(-0.2 * root) - math.exp(statistics.fmean(math.cos(2 * math.pi * each) for each in z)) + 20 + math.e


def ellipsoid(u: list[float]) -> float:
    return sum(10 ** (4 * place / (len(u) - 1)) * (10 * each - 4) ** 2 for place, each in enumerate(u))


def sphere(u: list[float]) -> float:
    return sum((each - 0.37) ** 2 for each in u)


def styblinski_tang(u: list[float]) -> float:
    z = [10 * each - 5 for each in u]
    return 0.5 * sum(each**4 - 16 * each * each + 5 * each for each in z) + 39.16617 * len(z)


CLEAN = [
    ("Branin", branin, 2),
    ("Rosenbrock", rosenbrock, 3),
    ("Ackley", ackley, 4),
    ("ellipsoid", ellipsoid, 4),
    ("sphere", sphere, 5),
    ("Styblinski-Tang", styblinski_tang, 3),
]


def clean_gap(function: Callable[[list[float]], float], dim: int, seed: int, trials: int) -> float:
    names = [f"x{place}" for place in range(dim)]
    study = fedbo.Study("clean", {name: fedbo.Float(0, 1) for name in names}, direction="minimize", seed=seed)
    study.optimize(lambda params: function([float(params[name]) for name in names]), n_trials=trials)
    return math.log10(max(float(study.best_value), 1e-12))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--rows", default=None)
    parser.add_argument("--penalties", default=",".join(PENALTIES))
    parser.add_argument("--clean", action="store_true")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if chosen.clean:
        for name, function, dim in CLEAN:
            gaps = [clean_gap(function, dim, seed, chosen.trials) for seed in range(chosen.runs)]
            error = statistics.stdev(gaps) / math.sqrt(len(gaps))
            print(f"| {name}, d = {dim} | {statistics.fmean(gaps):.2f} ± {error:.2f} |", flush=True)
        return
    penalties = chosen.penalties.split(",")
    rows = chosen.rows.split(";") if chosen.rows else ROWS
    print("| |", " | ".join(penalties), "|")
    for row in rows:
        cells = []
        for penalty in penalties:
            regrets = [regret(row, penalty, seed, chosen.trials) for seed in range(chosen.runs)]
            cells.append(f"{statistics.median(regrets):.1e}")
            print(".", end="", file=sys.stderr, flush=True)
        print(f"| {row} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
