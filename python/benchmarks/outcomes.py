"""Compares constraints and several objectives with other packages, from equal initial points.

    python benchmarks/outcomes.py [--runs 5] [--trials 60] [--arms log-ei,nsga2,optuna-gp,botorch,random] [--problems zdt1,...] [--noise 0.1]

With several objectives, the outcome is log10 of the hypervolume gap between the known front and the trials so far, for
the reference point (1.1, ..., 1.1). With constraints, it is log10 of the gap between the best feasible trial and the
known minimum. Gaps below 1e-8 count as 1e-8. Each row has the mean over runs and its standard error after a third of
the trials, after two thirds, and after all. Arms with missing packages are skipped: nsga2 (TPE if there are
constraints) and optuna-gp need Optuna, botorch needs BoTorch.

With --noise, all numbers that an arm is told have normal noise. Its standard deviation is this fraction of the standard
deviation of the number over uniform points. Outcomes use the numbers without noise and the trials that are truly
feasible (as in Letham, Karrer, Ottoni & Bakshy 2019, Constrained Bayesian optimization with noisy experiments). The arm
log-ei-plain is log-ei without the augmented expected improvement.

With --choice, fedbo's arms are evaluated by the final trial that a user would choose: the best value among trials with
feasible observed numbers, or the choice of a model fitted to all trials. Prints how often this trial is truly feasible, the
mean gap of its objective to the minimum, and the mean of its total constraint violation.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import fedbo

REFERENCE = 1.1
LEAST = 1e-8

Numbers = dict[str, float]


@dataclass(frozen=True)
class Problem:
    """Objectives and constraints on the unit cube. Objectives are minimized; constraints are met if at most 0."""

    dim: int
    evaluate: Callable[[list[float]], Numbers]
    objectives: list[str]
    constraints: list[str] = field(default_factory=list)
    best: float = 0.0
    """Known minimum, or hypervolume of the front."""
    noise: Numbers = field(default_factory=dict)
    """Standard deviation of the noise of each number; empty without noise."""

    def noisy(self, share: float) -> Problem:
        """Add noise with this fraction of each number's standard deviation over uniform points."""
        if share == 0:
            return self
        drawn = random.Random(0)
        numbers = [self.evaluate([drawn.random() for _ in range(self.dim)]) for _ in range(2000)]
        noise = {name: share * statistics.stdev(each[name] for each in numbers) for name in (*self.objectives, *self.constraints)}
        return replace(self, noise=noise)

    def told(self, truth: Numbers, seed: int, index: int) -> Numbers:
        """Return the numbers that an arm is told about a trial. All arms of a run get the same noise in the same order."""
        drawn = random.Random(f"{seed}/{index}")
        return {name: value + drawn.gauss(0, self.noise.get(name, 0.0)) for name, value in truth.items()}

    def outcome(self, trials: Sequence[Numbers]) -> float:
        """Return the decimal logarithm of the gap of the trials so far."""
        feasible = [numbers for numbers in trials if all(numbers[name] <= 0 for name in self.constraints)]
        if len(self.objectives) > 1:
            gap = self.best - hypervolume([[numbers[name] for name in self.objectives] for numbers in feasible])
        else:
            # Without a feasible trial, use the gap of a large value.
            gap = min((numbers[self.objectives[0]] for numbers in feasible), default=1e3) - self.best
        return math.log10(max(gap, LEAST))


def hypervolume(points: list[list[float]]) -> float:
    """Return the volume below the reference that minimized points dominate, computed in slices along the last coordinate."""
    points = [point for point in points if all(value < REFERENCE for value in point)]
    if not points:
        return 0.0
    if len(points[0]) == 1:
        return REFERENCE - min(point[0] for point in points)
    ends = [*sorted({point[-1] for point in points}), REFERENCE]
    slices = zip(ends, ends[1:], strict=False)
    return sum((high - low) * hypervolume([p[:-1] for p in points if p[-1] <= low]) for low, high in slices)


def zdt(power: float) -> Callable[[list[float]], Numbers]:
    """ZDT1 (power 0.5) and ZDT2 (power 2) of Zitzler, Deb & Thiele (2000)."""

    def evaluate(x: list[float]) -> Numbers:
        g = 1 + 9 * sum(x[1:]) / (len(x) - 1)
        return {"f1": x[0], "f2": g * (1 - (x[0] / g) ** power)}

    return evaluate


def dtlz2(n_objectives: int) -> Callable[[list[float]], Numbers]:
    """DTLZ2 of Deb, Thiele, Laumanns & Zitzler (2002)."""

    def evaluate(x: list[float]) -> Numbers:
        angles = [value * math.pi / 2 for value in x[: n_objectives - 1]]
        radius = 1 + sum((value - 0.5) ** 2 for value in x[n_objectives - 1 :])
        numbers = {}
        for j in range(n_objectives):
            value = radius * math.prod(map(math.cos, angles[: n_objectives - 1 - j]))
            numbers[f"f{j + 1}"] = value * (math.sin(angles[n_objectives - 1 - j]) if j else 1)
        return numbers

    return evaluate


def disc_branin(x: list[float]) -> Numbers:
    """Branin's function on a disc that contains one of its three minima (Gelbart, Snoek & Adams 2014)."""
    u, v = 15 * x[0] - 5, 15 * x[1]
    value = (v - 5.1 / (4 * math.pi**2) * u**2 + 5 / math.pi * u - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(u) + 10
    return {"f1": value, "c1": (u - 2.5) ** 2 + (v - 7.5) ** 2 - 50}


def gramacy(x: list[float]) -> Numbers:
    """The toy problem of Gramacy et al. (2016)."""
    wave = 1.5 - x[0] - 2 * x[1] - 0.5 * math.sin(2 * math.pi * (x[0] ** 2 - 2 * x[1]))
    return {"f1": x[0] + x[1], "c1": wave, "c2": x[0] ** 2 + x[1] ** 2 - 1.5}


def hartmann6(x: list[float]) -> Numbers:
    """Hartmann's function of six variables with a sum of at most 3 (Letham et al. 2019)."""
    alpha = (1.0, 1.2, 3.0, 3.2)
    a = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14))
    p = (
        (1312, 1696, 5569, 124, 8283, 5886),
        (2329, 4135, 8307, 3736, 1004, 9991),
        (2348, 1451, 3522, 2883, 3047, 6650),
        (4047, 8828, 8732, 5743, 1091, 381),
    )
    distances = [sum(a[i][j] * (x[j] - 1e-4 * p[i][j]) ** 2 for j in range(6)) for i in range(4)]
    return {"f1": -sum(weight * math.exp(-distance) for weight, distance in zip(alpha, distances, strict=True)), "c1": sum(x) - 3}


def area_of(front: Callable[[float], float], n: int = 400_000) -> float:
    """Return the hypervolume of a front f2 = front(f1) for f1 from 0 to 1, by the midpoint rule."""
    inner = sum(REFERENCE - front((i + 0.5) / n) for i in range(n)) / n
    return inner + (REFERENCE - 1) * (REFERENCE - front(1.0))


PROBLEMS = {
    "zdt1": Problem(4, zdt(0.5), ["f1", "f2"], best=area_of(lambda f: 1 - math.sqrt(f))),
    "zdt2": Problem(4, zdt(2.0), ["f1", "f2"], best=area_of(lambda f: 1 - f**2)),
    "dtlz2": Problem(4, dtlz2(2), ["f1", "f2"], best=REFERENCE**2 - math.pi / 4),
    "dtlz2-3": Problem(5, dtlz2(3), ["f1", "f2", "f3"], best=REFERENCE**3 - math.pi / 6),
    "disc-branin": Problem(2, disc_branin, ["f1"], ["c1"], best=0.39788735772973816),
    "gramacy": Problem(2, gramacy, ["f1"], ["c1", "c2"], best=0.599788),
    "hartmann6": Problem(6, hartmann6, ["f1"], ["c1"], best=-3.322368011391339),
}


def by_fedbo(problem: Problem, strategy: str, seed: int, n_trials: int) -> tuple[fedbo.Study, list[Numbers]]:
    space = {f"x{i}": fedbo.Float(0, 1) for i in range(problem.dim)}
    several = len(problem.objectives) > 1
    goal: dict[str, object] = {"objectives": dict.fromkeys(problem.objectives, "minimize")} if several else {"direction": "minimize"}
    if problem.constraints:
        goal["constraints"] = {name: {"at_most": 0.0} for name in problem.constraints}
    options = {"augmented": False} if strategy == "log-ei-plain" else None
    strategy, is_noisy = strategy.removesuffix("-plain"), bool(problem.noise)
    study = fedbo.Study("timed", space, strategy=strategy, strategy_options=options, seed=seed, noisy=is_noisy, **goal)  # type: ignore[arg-type]
    found: list[Numbers] = []
    while len(found) < n_trials:
        trial = study.ask()
        numbers = problem.evaluate([float(trial[name]) for name in space])
        found.append(numbers)
        numbers = problem.told(numbers, seed, len(found))
        study.tell(trial, numbers if several else {**{n: numbers[n] for n in problem.constraints}, "value": numbers["f1"]})
    return study, found


def show_choices(name: str, problem: Problem, arm: str, seeds: range, n_trials: int) -> None:
    choices: dict[str, list[Numbers]] = {"by value": [], "by model": []}
    for seed in seeds:
        study, found = by_fedbo(problem, arm, seed, n_trials)
        choices["by model"].append(found[study.insight().best_by_mean.number])
        choices["by value"].extend(found[best.number] for best in study.best_trials)
    for kind, chosen in choices.items():
        missed = [sum(max(numbers[each], 0.0) for each in problem.constraints) for numbers in chosen]
        gaps = [numbers["f1"] - problem.best for numbers in chosen]
        if len(gaps) < 2:
            print(f"{name:12} {arm:12} {kind}  {len(gaps)} runs have a choice", flush=True)
            continue
        error = statistics.stdev(gaps) / math.sqrt(len(gaps))
        cells = f"feasible {missed.count(0.0)} of {len(gaps)}  gap {statistics.mean(gaps):7.3f} ±{error:6.3f}"
        print(f"{name:12} {arm:12} {kind}  {cells}  missed {statistics.mean(missed):7.3f}", flush=True)


def initial_points(problem: Problem, seed: int) -> list[list[float]]:
    """Return the initial points of fedbo."""
    space = {f"x{i}": fedbo.Float(0, 1) for i in range(problem.dim)}
    study = fedbo.Study("design", space, direction="minimize", seed=seed)
    points = []
    while True:
        trial = study.ask()
        if trial.source != "initial":
            return points
        points.append([float(trial[name]) for name in space])
        study.tell(trial, float(len(points)))


def by_optuna(problem: Problem, sampler: str, seed: int, n_trials: int) -> list[Numbers]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    start = initial_points(problem, seed)
    limits = (lambda trial: trial.user_attrs["constraints"]) if problem.constraints else None
    if sampler == "optuna-gp":
        chosen = optuna.samplers.GPSampler(seed=seed, n_startup_trials=len(start), constraints_func=limits, deterministic_objective=not problem.noise)
    elif problem.constraints:
        chosen = optuna.samplers.TPESampler(seed=seed, n_startup_trials=len(start), constraints_func=limits)
    else:
        chosen = optuna.samplers.NSGAIISampler(seed=seed, population_size=10)
    study = optuna.create_study(directions=["minimize"] * len(problem.objectives), sampler=chosen)
    for point in start:
        study.enqueue_trial({f"x{i}": value for i, value in enumerate(point)})
    found: list[Numbers] = []

    def objective(trial: optuna.Trial) -> list[float]:
        numbers = problem.evaluate([trial.suggest_float(f"x{i}", 0, 1) for i in range(problem.dim)])
        found.append(numbers)
        numbers = problem.told(numbers, seed, len(found))
        trial.set_user_attr("constraints", [numbers[name] for name in problem.constraints])
        return [numbers[name] for name in problem.objectives]

    study.optimize(objective, n_trials=n_trials)
    return found


def by_botorch(problem: Problem, seed: int, n_trials: int) -> list[Numbers]:
    import torch
    from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
    from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.optim import optimize_acqf
    from gpytorch.mlls import SumMarginalLogLikelihood

    warnings.simplefilter("ignore")
    torch.manual_seed(seed)
    points = initial_points(problem, seed)
    found: list[Numbers] = []
    told: list[Numbers] = []

    def evaluate(point: list[float]) -> None:
        found.append(problem.evaluate(point))
        told.append(problem.told(found[-1], seed, len(found)))

    for point in points:
        evaluate(point)
    bounds = torch.tensor([[0.0] * problem.dim, [1.0] * problem.dim], dtype=torch.double)
    while len(found) < n_trials:
        x = torch.tensor(points, dtype=torch.double)
        columns = [[-numbers[name] for numbers in told] for name in problem.objectives]
        columns += [[numbers[name] for numbers in told] for name in problem.constraints]
        models = [SingleTaskGP(x, torch.tensor(column, dtype=torch.double).unsqueeze(-1)) for column in columns]
        model = ModelListGP(*models)
        fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
        if len(problem.objectives) > 1:
            reference = [-REFERENCE] * len(problem.objectives)
            acquisition = qLogNoisyExpectedHypervolumeImprovement(model, reference, x, prune_baseline=True)
        else:
            feasible = [-n["f1"] for n in told if all(n[name] <= 0 for name in problem.constraints)]
            limits = {1 + j: (None, 0.0) for j in range(len(problem.constraints))}
            best = max(feasible, default=min(columns[0]))
            acquisition = LogConstrainedExpectedImprovement(model, best, 0, limits)
        candidate, _ = optimize_acqf(acquisition, bounds, q=1, num_restarts=5, raw_samples=256)
        points.append(candidate[0].tolist())
        evaluate(points[-1])
    return found


def run(arm: str, problem: Problem, seed: int, n_trials: int) -> list[Numbers]:
    match arm:
        case "nsga2" | "optuna-gp":
            return by_optuna(problem, arm, seed, n_trials)
        case "botorch":
            return by_botorch(problem, seed, n_trials)
        case _:
            return by_fedbo(problem, arm, seed, n_trials)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--arms", default="log-ei,nsga2,optuna-gp,botorch,random")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first run")
    parser.add_argument("--choice", action="store_true")
    given = parser.parse_args()
    marks = [given.trials // 3, 2 * given.trials // 3, given.trials]
    for name in given.problems.split(","):
        problem = PROBLEMS[name].noisy(given.noise)
        for arm in given.arms.split(","):
            seeds = range(given.seed, given.seed + given.runs)
            if given.choice:
                show_choices(name, problem, arm, seeds, given.trials)
                continue
            began = time.perf_counter()
            try:
                runs = [run(arm, problem, seed, given.trials) for seed in seeds]
            except ImportError as missing:
                print(f"{name:12} {arm:10} left out: {missing}", flush=True)
                continue
            seconds = (time.perf_counter() - began) / given.runs
            cells = []
            for mark in marks:
                outcomes = [problem.outcome(found[:mark]) for found in runs]
                error = statistics.stdev(outcomes) / math.sqrt(len(outcomes)) if len(outcomes) > 1 else math.nan
                cells.append(f"{statistics.mean(outcomes):6.2f} ±{error:5.2f}")
            print(f"{name:12} {arm:10} {'  '.join(cells)}   {seconds:7.2f} s a run", flush=True)


if __name__ == "__main__":
    main()
