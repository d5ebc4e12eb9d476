"""Other packages on structured spaces. They are imported where they are used, so that a missing one leaves out only its arm."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from structured_space import Choice, Number, Params, Problem

VALUE = "value"


class Optuna:
    """A sampler of Optuna with a define-by-run space, or with all parameters in all trials if `flat`."""

    def __init__(self, problem: Problem, sampler: Callable[..., Any], flat: bool = False) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.problem, self.is_flat, self.has_limits = problem, flat, problem.needs_limits
        limits = (lambda trial: trial.user_attrs["limits"]) if self.has_limits else None
        self.study = optuna.create_study(direction="minimize", sampler=sampler(constraints_func=limits))

    def ask(self) -> Params:
        self.trial = self.study.ask()
        raw: Params = {}
        for name, spec in self.problem.space.items():
            if not self.is_flat and not self.problem.exists(name, raw):
                continue
            if isinstance(spec, Choice):
                raw[name] = self.trial.suggest_categorical(name, spec.values)
            elif spec.whole:
                raw[name] = self.trial.suggest_int(name, int(spec.low), int(spec.high), log=spec.log)
            else:
                raw[name] = self.trial.suggest_float(name, spec.low, spec.high, log=spec.log)
        return self.problem.by_hand(raw)

    def tell(self, params: Params, value: float | None) -> None:
        if self.has_limits:
            self.trial.set_user_attr("limits", list(self.problem.limits(params, self.problem.shares).values()))
        self.study.tell(self.trial, self.problem.worst if value is None else value)


def optuna_tpe(problem: Problem, seed: int, n_trials: int) -> Optuna:
    import optuna

    return Optuna(problem, lambda **limits: optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True, **limits))


def optuna_gp(problem: Problem, seed: int, n_trials: int, flat: bool = False) -> Optuna:
    import optuna

    # By default the sampler treats the objective as noisy.
    sampler = optuna.samplers.GPSampler
    return Optuna(problem, lambda **limits: sampler(seed=seed, deterministic_objective=True, **limits), flat)


def optuna_gp_flat(problem: Problem, seed: int, n_trials: int) -> Optuna:
    return optuna_gp(problem, seed, n_trials, flat=True)


class Smac:
    """SMAC with the conditions of ConfigSpace. It has no constraints on outcomes, so infeasible points get the worst value."""

    def __init__(self, problem: Problem, seed: int, n_trials: int) -> None:
        import ConfigSpace
        from smac import HyperparameterOptimizationFacade, Scenario

        self.problem = problem
        space = ConfigSpace.ConfigurationSpace(seed=seed)
        made: dict[str, Any] = {}
        for name, spec in problem.space.items():
            if isinstance(spec, Choice):
                made[name] = ConfigSpace.Categorical(name, list(spec.values))
            elif spec.whole:
                made[name] = ConfigSpace.Integer(name, (int(spec.low), int(spec.high)), log=spec.log)
            else:
                made[name] = ConfigSpace.Float(name, (spec.low, spec.high), log=spec.log)
        space.add(list(made.values()))
        for name, spec in problem.space.items():
            conditions = [ConfigSpace.InCondition(made[name], made[parent], list(choices)) for parent, choices in spec.when.items()]
            if conditions:
                space.add(conditions[0] if len(conditions) == 1 else ConfigSpace.AndConjunction(*conditions))
        self.folder = tempfile.TemporaryDirectory()
        scenario = Scenario(space, deterministic=True, n_trials=n_trials, seed=seed, output_directory=self.folder.name)
        self.smac = HyperparameterOptimizationFacade(scenario, lambda config, seed=0: 0.0, overwrite=True, logging_level=False)

    def ask(self) -> Params:
        self.info = self.smac.ask()
        chosen = {name: plain(value) for name, value in dict(self.info.config).items()}
        return self.problem.by_hand(chosen)

    def tell(self, params: Params, value: float | None) -> None:
        from smac.runhistory.dataclasses import TrialValue

        self.smac.tell(self.info, TrialValue(cost=self.problem.worst if value is None else value))


def plain(value: Any) -> Any:
    """Convert a scalar of NumPy to one of Python."""
    return value.item() if isinstance(value, np.generic) else value


class Botorch:
    """BoTorch's standard model with the logarithm of expected improvement, maximized under the rules."""

    def __init__(self, problem: Problem, seed: int, n_trials: int) -> None:
        import botorch  # noqa: F401  (so that the first proposal need not load it)
        import torch

        if not problem.is_linear:
            raise NotImplementedError("only for problems with rules or mixtures")
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.problem = problem
        self.waiting = list(problem.walk(max(5, min(2 * len(problem.space), 20)), np.random.default_rng(seed)))
        self.x: list[Any] = []
        self.y: list[float] = []

    def ask(self) -> Params:
        return self.problem.params(self.waiting.pop() if self.waiting else self.propose())

    def propose(self) -> Any:
        import torch
        from botorch.acquisition import LogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Normalize
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood

        def sparse(row: Any, bound: float, sign: float) -> Any:
            places = np.flatnonzero(row)
            return torch.tensor(places), torch.tensor(sign * row[places]), sign * bound

        bounds = torch.tensor(self.problem.bounds, dtype=torch.double).T
        x, y = torch.tensor(np.array(self.x)), -torch.tensor(self.y, dtype=torch.double).unsqueeze(-1)
        model = SingleTaskGP(x, y, input_transform=Normalize(x.shape[1], bounds=bounds))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        candidate, _ = optimize_acqf(
            LogExpectedImprovement(model, y.max()),
            bounds,
            q=1,
            num_restarts=5,
            raw_samples=128,
            # BoTorch's inequalities are lower bounds.
            inequality_constraints=[sparse(row, bound, -1.0) for row, bound in self.problem.upper] or None,
            equality_constraints=[sparse(row, total, 1.0) for row, total in self.problem.equal] or None,
        )
        return candidate[0].numpy()

    def tell(self, params: Params, value: float | None) -> None:
        self.x.append(self.problem.vector(params))
        self.y.append(self.problem.worst if value is None else value)


class Baybe:
    """BayBE with linear constraints on continuous parameters."""

    def __init__(self, problem: Problem, seed: int, n_trials: int) -> None:
        from baybe import Campaign
        from baybe.constraints import ContinuousLinearConstraint
        from baybe.parameters import NumericalContinuousParameter
        from baybe.searchspace import SearchSpace
        from baybe.targets import NumericalTarget
        from baybe.utils.random import set_random_seed

        if not problem.is_linear:
            raise NotImplementedError("only for problems with rules or mixtures")
        set_random_seed(seed)
        names = list(problem.space)
        parameters = [NumericalContinuousParameter(name, limits) for name, limits in zip(names, problem.bounds, strict=True)]
        rows = [(row, "<=", bound) for row, bound in problem.upper] + [(row, "=", total) for row, total in problem.equal]
        limits = [ContinuousLinearConstraint(names, operator, row.tolist(), bound) for row, operator, bound in rows]
        space = SearchSpace.from_product(parameters, limits)
        self.problem = problem
        self.campaign = Campaign(space, NumericalTarget(VALUE, minimize=True).to_objective())

    def ask(self) -> Params:
        self.frame = self.campaign.recommend(batch_size=1)
        return {name: float(self.frame[name].iloc[0]) for name in self.problem.space}

    def tell(self, params: Params, value: float | None) -> None:
        self.campaign.add_measurements(self.frame.assign(**{VALUE: self.problem.worst if value is None else value}))


class Ax:
    """Ax with dependent parameters; the last share of a mixture is the rest, since its constraints are inequalities."""

    def __init__(self, problem: Problem, seed: int, n_trials: int) -> None:
        from ax.api.client import Client

        self.problem, self.rests = problem, {names[-1]: names[:-1] for names in problem.mixtures}
        # Ax parses constraints with SymPy, where some words have a meaning.
        self.aliases = {name: f"p_{name}" for name in problem.space if name not in self.rests}
        self.client = Client(random_seed=seed)
        self.client.configure_experiment([self.parameter(name) for name in self.aliases], self.limits())
        self.client.configure_optimization(f"-{VALUE}")
        self.client.configure_generation_strategy(initialization_random_seed=seed)

    def parameter(self, name: str) -> Any:
        from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

        spec, space = self.problem.space[name], self.problem.space
        if isinstance(spec, Number):
            scaling = "log" if spec.log else "linear"
            if spec.whole:
                return RangeParameterConfig(self.aliases[name], (int(spec.low), int(spec.high)), "int", scaling=scaling)
            return RangeParameterConfig(self.aliases[name], (spec.low, spec.high), "float", scaling=scaling)
        children = {
            value: [self.aliases[child] for child, each in space.items() if value in each.when.get(name, ())] for value in spec.values
        }
        dependent = {value: names for value, names in children.items() if names}
        kind = "int" if isinstance(spec.values[0], int) else "str"
        return ChoiceParameterConfig(self.aliases[name], list(spec.values), kind, dependent_parameters=dependent or None)

    def limits(self) -> list[str]:
        """Return the rules and the bounds of the rest, as texts."""
        rows = list(self.problem.upper)
        for rest in self.rests:
            place = list(self.problem.space).index(rest)
            low, high = self.problem.bounds[place]
            row = np.eye(len(self.problem.space))[place]
            rows += [(row, high), (-row, -low)]
        texts = []
        for row, bound in rows:
            weights = dict(zip(self.problem.space, row.tolist(), strict=True))
            for rest, others in self.rests.items():
                weight = weights.pop(rest)
                bound -= weight
                weights |= {name: weights[name] - weight for name in others}
            terms = " + ".join(f"{weight} * {self.aliases[name]}" for name, weight in weights.items() if weight)
            texts.append(f"{terms} <= {bound}")
        return texts

    def ask(self) -> Params:
        [(self.index, chosen)] = self.client.get_next_trials(max_trials=1).items()
        params = {name: chosen[alias] for name, alias in self.aliases.items() if alias in chosen}
        for rest, others in self.rests.items():
            params[rest] = 1 - sum(params[name] for name in others)
        return params

    def tell(self, params: Params, value: float | None) -> None:
        self.client.complete_trial(self.index, {VALUE: self.problem.worst if value is None else value})
