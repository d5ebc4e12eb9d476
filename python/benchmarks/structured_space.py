"""Search spaces with conditional parameters, linear rules and mixtures, in a form that every package can be given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space
from scipy.optimize import linprog, minimize

Params: TypeAlias = dict[str, Any]
When: TypeAlias = Mapping[str, tuple[Any, ...]]
"""Choices of other parameters for which a parameter exists. An empty mapping means always."""

TOLERANCE = 1e-6
"""A rule may be violated by this share of its range."""


@dataclass(frozen=True)
class Number:
    low: float
    high: float
    log: bool = False
    whole: bool = False
    when: When = field(default_factory=dict)

    def unit(self, value: float) -> float:
        """Return the position of a value between the bounds, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def draw(self, rng: np.random.Generator) -> float:
        low, high = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        value = math.exp(rng.uniform(math.log(low), math.log(high))) if self.log else rng.uniform(low, high)
        return min(max(round(value), int(self.low)), int(self.high)) if self.whole else min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Choice:
    values: tuple[Any, ...]
    when: When = field(default_factory=dict)

    def draw(self, rng: np.random.Generator) -> Any:
        return self.values[rng.integers(len(self.values))]


@dataclass(frozen=True)
class Rule:
    """A bound on a weighted sum of parameters."""

    terms: Mapping[str, float]
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True)
class Problem:
    """A function to minimize. A parameter comes after those that it depends on."""

    space: Mapping[str, Number | Choice]
    evaluate: Callable[[Params], float]
    best: float | None = None
    """Known minimum."""
    rules: tuple[Rule, ...] = ()
    mixtures: tuple[tuple[str, ...], ...] = ()
    """Names of shares that sum to one."""

    def exists(self, name: str, params: Params) -> bool:
        return all(params.get(parent) in choices for parent, choices in self.space[name].when.items())

    def present(self, params: Params) -> Params:
        """Return the parameters that exist, without the others."""
        kept: Params = {}
        for name in self.space:
            if self.exists(name, kept):
                kept[name] = params[name]
        return kept

    @property
    def shares(self) -> list[str]:
        """The members of mixtures."""
        return [name for names in self.mixtures for name in names]

    @property
    def is_linear(self) -> bool:
        """True if the problem has rules or mixtures. All its parameters are then real numbers that always exist."""
        return bool(self.rules or self.mixtures)

    @cached_property
    def bounds(self) -> list[tuple[float, float]]:
        return [(spec.low, spec.high) for spec in self.space.values() if isinstance(spec, Number)]

    def row(self, terms: Mapping[str, float]) -> NDArray[np.float64]:
        return np.array([terms.get(name, 0.0) for name in self.space])

    @cached_property
    def upper(self) -> list[tuple[NDArray[np.float64], float]]:
        """The rules in the form row · x ≤ bound, each divided by the range of its sum."""
        rows = []
        for rule in self.rules:
            row = self.row(rule.terms)
            width = sum(abs(weight) * (high - low) for weight, (low, high) in zip(row, self.bounds, strict=True))
            if rule.at_most is not None:
                rows.append((row / width, rule.at_most / width))
            if rule.at_least is not None:
                rows.append((-row / width, -rule.at_least / width))
        return rows

    @cached_property
    def equal(self) -> list[tuple[NDArray[np.float64], float]]:
        """The mixtures in the form row · x = total."""
        return [(self.row(dict.fromkeys(names, 1.0)), 1.0) for names in self.mixtures]

    def excesses(self, params: Params, bounded: Sequence[str]) -> dict[str, float]:
        """Return by how much a point misses each rule, and the worst bound of some parameters: at most 0 if it satisfies them."""
        x = self.vector(params)
        found = {f"rule{place}": float(row @ x - bound) for place, (row, bound) in enumerate(self.upper)}
        limits = [(params[name], *self.bounds[list(self.space).index(name)]) for name in bounded]
        if limits:
            found["bounds"] = max(max(low - value, value - high) / (high - low) for value, low, high in limits)
        return found

    def by_hand(self, raw: Params) -> Params:
        """Divide the shares of each mixture by their sum."""
        params = dict(raw)
        for names in self.mixtures:
            total = sum(raw[name] for name in names)
            for name in names:
                params[name] = raw[name] / total if total > 0 else 1 / len(names)
        return params

    @property
    def needs_limits(self) -> bool:
        """True if points divided by hand can be infeasible."""
        return bool(self.rules) or (bool(self.mixtures) and set(self.bounds) != {(0.0, 1.0)})

    def limits(self, params: Params, bounded: Sequence[str]) -> dict[str, float]:
        """Return the excesses that an arm without rules is told, at most 0 for a feasible point."""
        return {name: value - TOLERANCE for name, value in self.excesses(params, bounded).items()}

    def is_feasible(self, params: Params) -> bool:
        if not self.is_linear:
            return True
        x = self.vector(params)
        sums = all(abs(row @ x - total) <= TOLERANCE for row, total in self.equal)
        return sums and max(self.excesses(params, list(self.space)).values()) <= TOLERANCE

    def vector(self, params: Params) -> NDArray[np.float64]:
        return np.array([float(params[name]) for name in self.space])

    def params(self, x: NDArray[np.float64]) -> Params:
        return {name: float(value) for name, value in zip(self.space, x, strict=True)}

    def draw(self, rng: np.random.Generator) -> Params:
        """Draw a point uniformly from the feasible ones; in a tree, each choice and each existing number uniformly."""
        if self.is_linear:
            return self.params(self.walk(1, rng)[0])
        drawn: Params = {}
        for name, spec in self.space.items():
            if self.exists(name, drawn):
                drawn[name] = spec.draw(rng)
        return drawn

    @cached_property
    def faces(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return all inequalities, bounds included, as rows and their limits."""
        n = len(self.space)
        low, high = np.array(self.bounds).T
        rows = np.vstack([np.eye(n), -np.eye(n), *(row[None] for row, _ in self.upper)])
        return rows, np.concatenate([high, -low, [bound for _, bound in self.upper]])

    @cached_property
    def directions(self) -> NDArray[np.float64]:
        """Return a basis of the directions that keep the sums of mixtures, as columns."""
        return null_space(np.array([row for row, _ in self.equal])) if self.equal else np.eye(len(self.space))

    @cached_property
    def centre(self) -> NDArray[np.float64]:
        """Return the centre of the largest ball within the feasible points."""
        (rows, limits), n = self.faces, len(self.space)
        radii = np.linalg.norm(rows @ self.directions, axis=1)
        sums = [np.append(row, 0.0) for row, _ in self.equal]
        found = linprog(
            np.append(np.zeros(n), -1.0),
            A_ub=np.column_stack([rows, radii]),
            b_ub=limits,
            A_eq=np.array(sums) if sums else None,
            b_eq=[total for _, total in self.equal] if sums else None,
            bounds=[(None, None)] * n + [(0, None)],
        )
        if not found.success or found.x[-1] <= 0:
            raise ValueError("the rules leave no point")
        return np.asarray(found.x[:-1])

    def walk(self, n_points: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw feasible points with hit and run (Smith 1984), each after 20 steps per parameter from the centre."""
        rows, limits = self.faces
        points = []
        for _ in range(n_points):
            x = self.centre
            for _ in range(20 * len(self.space)):
                step = self.directions @ rng.standard_normal(self.directions.shape[1])
                speed, room = rows @ step, limits - rows @ x
                ahead, behind = speed > 1e-12, speed < -1e-12
                x = x + rng.uniform(np.max(room[behind] / speed[behind]), np.min(room[ahead] / speed[ahead])) * step
            points.append(x)
        return np.array(points)

    @cached_property
    def worst(self) -> float:
        """Return the largest value of 200 feasible points, which is told for an infeasible one."""
        return max(self.evaluate(self.params(x)) for x in self.walk(200, np.random.default_rng(0)))

    def search(self, n_draws: int = 2000, n_starts: int = 60) -> tuple[float, Params]:
        """Search the minimum of a problem with rules or mixtures: SLSQP from the best of many feasible points."""
        x = self.walk(n_draws, np.random.default_rng(1))
        values = np.array([self.evaluate(self.params(each)) for each in x])
        limits: list[dict[str, Any]] = [{"type": "eq", "fun": lambda z, r=row, t=total: r @ z - t} for row, total in self.equal]
        limits += [{"type": "ineq", "fun": lambda z, r=row, b=bound: b - r @ z} for row, bound in self.upper]
        best, at = float(values.min()), x[values.argmin()]
        for start in x[np.argsort(values)[:n_starts]]:
            found = minimize(
                lambda z: self.evaluate(self.params(z)),
                start,
                method="SLSQP",
                bounds=self.bounds,
                constraints=limits,
                options={"maxiter": 500, "ftol": 1e-14},
            )
            if found.fun < best and self.is_feasible(self.params(found.x)):
                best, at = float(found.fun), found.x
        return best, self.params(at)
