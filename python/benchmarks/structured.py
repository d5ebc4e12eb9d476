"""Compares packages on conditional parameters, mixtures and linear rules.

    python benchmarks/structured.py [--runs 5] [--trials 50] [--arms fedbo,optuna-tpe,...] [--problems tree-two,...] [--json FILE]
    python benchmarks/structured.py --read FILE... [--checkpoints 10,20,50]
    python benchmarks/structured.py --optima

The outcome is log10 of the gap between the best feasible trial and the known minimum, at least 1e-8, or the best value itself for
problems with real models. Without a feasible trial, the largest of 200 random feasible values counts. A table for each problem has
means over runs with their standard errors at the checkpoints, the number of infeasible proposals per run, and seconds per
proposal. A second table has the differences to fedbo at the last checkpoint, paired by seeds (negative: better than fedbo), with
Student's test, corrected over problems with Holm's method for each arm.

An infeasible proposal costs a trial and is not evaluated. Arms do not share initial points. Arms with missing packages are left
out. --json keeps the value of each trial; it is written after each run. --read makes the tables from such files; if several
contain a run, the last one counts. --optima searches the minima of the problems with rules or mixtures, which are constants in
structured_problems.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

# All arms use one thread.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from scipy.stats import ttest_rel
from structured_arms import ARMS, PACKAGES, hush, suits
from structured_problems import PROBLEMS

LEAST = 1e-8
BASE = "fedbo"

Run: TypeAlias = dict[str, Any]
"""The keys problem, arm and seed, the value of each trial (null if it was infeasible), and seconds in total for proposals."""


def measure(name: str, arm: str, seed: int, n_trials: int) -> Run:
    problem = PROBLEMS[name]
    optimizer = ARMS[arm](problem, seed, n_trials)
    seconds = 0.0
    values: list[float | None] = []
    for _ in range(n_trials):
        began = time.perf_counter()
        params = optimizer.ask()
        seconds += time.perf_counter() - began
        value = problem.evaluate(problem.present(params)) if problem.is_feasible(params) else None
        values.append(value)
        if value is None:
            _ = problem.worst  # computed once, outside the measured time
        began = time.perf_counter()
        optimizer.tell(params, value)
        seconds += time.perf_counter() - began
    return {"problem": name, "arm": arm, "seed": seed, "values": values, "seconds": seconds}


def outcome(run: Run, n_trials: int) -> float:
    problem = PROBLEMS[run["problem"]]
    feasible = [value for value in run["values"][:n_trials] if value is not None]
    best = min(feasible) if feasible else problem.worst
    return best if problem.best is None else math.log10(max(best - problem.best, LEAST))


def mean_of(values: list[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    return f"{statistics.fmean(values):.3f} ± {statistics.stdev(values) / math.sqrt(len(values)):.3f}"


def holm(p: dict[str, float]) -> dict[str, float]:
    """Correct the p-values of several tests (Holm 1979)."""
    corrected: dict[str, float] = {}
    least = 0.0
    for place, (name, value) in enumerate(sorted(p.items(), key=lambda item: item[1])):
        least = max(least, min(1.0, (len(p) - place) * value))
        corrected[name] = least
    return corrected


def p_of(differences: list[float]) -> float:
    """Return the p-value of Student's test of differences against zero."""
    if statistics.pstdev(differences) == 0:
        return 1.0 if differences[0] == 0 else 0.0
    return float(ttest_rel(differences, [0.0] * len(differences)).pvalue)


def row(*cells: str) -> None:
    print("|", " | ".join(cells), "|", flush=True)


def show(runs: list[Run], checkpoints: list[int]) -> None:
    by_key = {(run["problem"], run["arm"], run["seed"]): run for run in runs}
    problems = [name for name in PROBLEMS if any(key[0] == name for key in by_key)]
    arms = [arm for arm in ARMS if any(key[1] == arm for key in by_key)]
    for name in problems:
        kind = "best value" if PROBLEMS[name].best is None else "log10 of the gap"
        print(f"\n{name}: {kind}")
        row("arm", *(f"{each} trials" for each in checkpoints), "infeasible", "s per proposal", "runs")
        row(*["---"] * (len(checkpoints) + 4))
        for arm in arms:
            own = [run for key, run in by_key.items() if key[:2] == (name, arm)]
            if not own:
                continue
            if any(len(run["values"]) < max(checkpoints) for run in own):
                raise SystemExit(f"{name}, {arm}: a run has fewer than {max(checkpoints)} trials; give smaller --checkpoints")
            cells = [mean_of([outcome(run, each) for run in own]) for each in checkpoints]
            infeasible = statistics.fmean(run["values"].count(None) for run in own)
            seconds = statistics.fmean(run["seconds"] / len(run["values"]) for run in own)
            row(arm, *cells, f"{infeasible:.1f}", f"{seconds:.3f}", str(len(own)))

    def paired(name: str, arm: str) -> list[float]:
        seeds = [seed for problem, each, seed in by_key if (problem, each) == (name, arm) and (name, BASE, seed) in by_key]
        ends = [[outcome(by_key[name, each, seed], checkpoints[-1]) for each in (arm, BASE)] for seed in seeds]
        return [own - base for own, base in ends]

    differences = {arm: {name: paired(name, arm) for name in problems} for arm in arms if arm != BASE}
    enough = {arm: {name: each for name, each in found.items() if len(each) > 1} for arm, found in differences.items()}
    if not any(enough.values()):
        print(f"\nno differences to {BASE}: they need two runs of it with equal seeds")
        return
    print(f"\ndifference to {BASE} after {checkpoints[-1]} trials, and p corrected over problems")
    row("problem", *enough)
    row(*["---"] * (len(enough) + 1))
    corrected = {arm: holm({name: p_of(each) for name, each in found.items()}) for arm, found in enough.items()}
    for name in problems:
        row(name, *(f"{mean_of(found[name])} ({corrected[arm][name]:.2g})" if name in found else "" for arm, found in enough.items()))


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def keep(path: Path, runs: list[Run]) -> None:
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps({"versions": versions(), "runs": runs}))
    part.replace(path)


def read(paths: list[Path]) -> list[Run]:
    runs: list[Run] = []
    for path in paths:
        try:
            kept = json.loads(path.read_text())
            unknown = {run["problem"] for run in kept["runs"]} - set(PROBLEMS) | {run["arm"] for run in kept["runs"]} - set(ARMS)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SystemExit(f"{path}: not a file written with --json: {error!r}") from error
        if unknown:
            raise SystemExit(f"{path}: unknown problems or arms: {', '.join(sorted(unknown))}")
        print(f"{path}: {', '.join(f'{name} {version}' for name, version in kept['versions'].items())}")
        runs += kept["runs"]
    return runs


def chosen_from(argument: str, given: str | None, known: list[str]) -> list[str]:
    chosen = known if given is None else given.split(",")
    if unknown := [name for name in chosen if name not in known]:
        raise SystemExit(f"--{argument}: unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return chosen


def optima() -> None:
    for name, problem in PROBLEMS.items():
        if problem.is_linear:
            value, at = problem.search()
            shown = ", ".join(f"{key} {share:.4f}" for key, share in at.items())
            print(f"{name:18} stored {problem.best!r}  found {value!r} at {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--arms", help=f"of {','.join(ARMS)}")
    parser.add_argument("--problems", help=f"of {','.join(PROBLEMS)}")
    parser.add_argument("--checkpoints", default="10,20,50", help="numbers of trials in the tables")
    parser.add_argument("--json", type=Path, help="file for the values of all trials")
    parser.add_argument("--read", type=Path, nargs="+", help="files written with --json, instead of runs")
    parser.add_argument("--optima", action="store_true", help="search the minima of problems with rules or mixtures")
    given = parser.parse_args()
    marks = sorted(int(each) for each in given.checkpoints.split(","))
    if given.optima:
        return optima()
    if given.read:
        return show(read(given.read), marks)
    if given.json and given.json.exists():
        raise SystemExit(f"--json {given.json}: this file exists; give another name, and later both names to --read")
    hush()
    marks = [each for each in marks if each < given.trials] + [given.trials]
    runs: list[Run] = []
    failed: list[str] = []
    for name in chosen_from("problems", given.problems, list(PROBLEMS)):
        for arm in chosen_from("arms", given.arms, list(ARMS)):
            if not suits(arm, PROBLEMS[name]):
                continue
            for seed in range(given.seed, given.seed + given.runs):
                try:
                    runs.append(measure(name, arm, seed, given.trials))
                except ImportError as missing:
                    print(f"{name}, {arm}: left out: {missing}", file=sys.stderr, flush=True)
                    break
                except Exception as error:  # one arm must not end the others
                    failed.append(f"{name}, {arm}, seed {seed}: {type(error).__name__}: {error}")
                    print(failed[-1], file=sys.stderr, flush=True)
                    continue
                if given.json:
                    keep(given.json, runs)
    if runs:
        show(runs, marks)
    if failed:
        raise SystemExit(f"{len(failed)} runs failed")


if __name__ == "__main__":
    main()
