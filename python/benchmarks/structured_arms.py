"""Ways to search a structured space: fedbo with and without its keys for structure, uniform draws, and all arms by name.

Without support for mixtures, an arm proposes a raw value for each share, within the bounds of the share, and divides by their sum
("by hand"). If that can miss a bound or a rule, the arm is told by how much, or the worst value if it cannot be told constraints.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from structured_peers import VALUE, Ax, Baybe, Botorch, Smac, optuna_gp, optuna_gp_flat, optuna_tpe
from structured_space import Choice, Number, Params, Problem


class Arm(Protocol):
    """An optimizer that is asked for points and told their values. A point may contain parameters that do not exist."""

    def ask(self) -> Params: ...

    def tell(self, params: Params, value: float | None) -> None:
        """Learn the value of the last point, or None if it is infeasible."""


class Random:
    """Draws feasible points uniformly."""

    def __init__(self, problem: Problem, seed: int, n_trials: int) -> None:
        self.problem, self.rng = problem, np.random.default_rng(seed)

    def ask(self) -> Params:
        return self.problem.draw(self.rng)

    def tell(self, params: Params, value: float | None) -> None:
        pass


class Fedbo:
    """fedbo with `when`, `rules` and `mixtures`."""

    def __init__(self, problem: Problem, seed: int, n_trials: int) -> None:
        import fedbo

        self.problem = problem
        space = {name: self.parameter(spec) for name, spec in problem.space.items()}
        further: dict[str, Any] = {}
        if problem.rules:
            rules = [fedbo.Rule(dict(each.terms), at_most=each.at_most, at_least=each.at_least) for each in problem.rules]
            further["rules"] = rules
        if problem.mixtures:
            further["mixtures"] = [fedbo.Mixture(list(names)) for names in problem.mixtures]
        self.study = fedbo.Study("structured", space, direction="minimize", seed=seed, **further)

    def parameter(self, spec: Number | Choice) -> Any:
        when = {"when": {parent: list(choices) for parent, choices in spec.when.items()}} if spec.when else {}
        return fedbo_parameter(spec, **when)

    def ask(self) -> Params:
        self.trial = self.study.ask()
        params = dict(self.trial.params)
        if set(params) != {name for name in self.problem.space if self.problem.exists(name, params)}:
            raise ValueError(f"the study proposed {params}, with parameters that do not exist, or without some that do")
        return params

    def tell(self, params: Params, value: float | None) -> None:
        if value is None:
            raise ValueError(f"the study proposed {params}, which breaks a rule")
        self.study.tell(self.trial, value)


def fedbo_parameter(spec: Number | Choice, **further: Any) -> Any:
    import fedbo

    if isinstance(spec, Choice):
        return fedbo.Categorical(list(spec.values), **further)
    if spec.whole:
        return fedbo.Int(int(spec.low), int(spec.high), log=spec.log, **further)
    return fedbo.Float(spec.low, spec.high, log=spec.log, **further)


class FedboFlat:
    """fedbo without its keys for structure: all parameters in all trials, mixtures by hand, rules as constraints."""

    def __init__(self, problem: Problem, seed: int, n_trials: int) -> None:
        import fedbo

        self.problem = problem
        self.bounded = problem.shares
        self.has_limits = problem.needs_limits
        self.start(fedbo, seed, list(problem.space))

    def start(self, fedbo: Any, seed: int, names: list[str]) -> None:
        space = {name: fedbo_parameter(self.problem.space[name]) for name in names}
        limits: dict[str, Any] = {}
        if self.has_limits:
            centre = self.problem.params(self.problem.centre)
            limits["constraints"] = {name: {"at_most": 0.0} for name in self.problem.limits(centre, self.bounded)}
        self.study = fedbo.Study("structured", space, direction="minimize", seed=seed, **limits)

    def decode(self, raw: Params) -> Params:
        return self.problem.by_hand(raw)

    def ask(self) -> Params:
        self.trial = self.study.ask()
        return self.decode(dict(self.trial.params))

    def tell(self, params: Params, value: float | None) -> None:
        told = self.problem.worst if value is None else value
        self.study.tell(self.trial, {VALUE: told, **self.problem.limits(params, self.bounded)} if self.has_limits else told)


class FedboReject(FedboFlat):
    """fedbo with the last share of a mixture as the rest, which a constraint keeps within its bounds."""

    def __init__(self, problem: Problem, seed: int, n_trials: int) -> None:
        import fedbo

        self.problem = problem
        self.bounded = [names[-1] for names in problem.mixtures]
        self.has_limits = True
        self.start(fedbo, seed, [name for name in problem.space if name not in self.bounded])

    def decode(self, raw: Params) -> Params:
        rests = {names[-1]: 1 - sum(raw[name] for name in names[:-1]) for names in self.problem.mixtures}
        return {name: rests[name] if name in rests else raw[name] for name in self.problem.space}


ARMS: dict[str, Callable[[Problem, int, int], Arm]] = {
    "fedbo": Fedbo,
    "fedbo-flat": FedboFlat,
    "fedbo-reject": FedboReject,
    "optuna-tpe": optuna_tpe,
    "optuna-gp": optuna_gp,
    "optuna-gp-flat": optuna_gp_flat,
    "smac": Smac,
    "botorch": Botorch,
    "baybe": Baybe,
    "ax": Ax,
    "random": Random,
}
PEERS = ("optuna", "smac", "ConfigSpace", "botorch", "torch", "baybe", "ax-platform")
PACKAGES = ("fedbo", *PEERS, "scikit-learn", "xgboost", "numpy", "scipy")


def suits(arm: str, problem: Problem) -> bool:
    """Return whether an arm supports a problem, and differs there from the other arms of its package."""
    if arm in ("botorch", "baybe"):
        return problem.is_linear
    if arm == "fedbo-reject":
        return bool(problem.mixtures)
    if arm == "optuna-gp-flat":
        return not problem.is_linear
    if arm == "ax":  # its spaces are trees, where a parameter depends on one choice
        return all(len(choices) == 1 for spec in problem.space.values() for choices in spec.when.values())
    return True


def hush() -> None:
    """Hide the warnings and logs of all packages."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
