"""fedbo in Optuna: a sampler for one party, a sampler driven by an agent of a federation, and the import of Optuna studies.

    import optuna
    from fedbo.integrations.optuna import FedboSampler

    study = optuna.create_study(sampler=FedboSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", -2, 2) ** 2, n_trials=20)
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Protocol

from fedbo.integrations import missing

try:
    import optuna
except ModuleNotFoundError as error:
    if error.name != "optuna":
        raise
    raise missing("optuna", "optuna") from error

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

import fedbo
from fedbo._errors import DefinitionError
from fedbo._objective import logger
from fedbo._space import Categorical, Float, Int, Parameter, ParameterLike, Value, exists, parameter, stored, study_tables
from fedbo._study import storage_address
from fedbo.integrations._queries import Code, Ended, Queries, choices, new_seed

__all__ = ["AskedTrial", "Asker", "FedboSampler", "FederatedSampler", "import_study"]

SOURCE = "fedbo:source"
"""User attribute of a trial with the source of its point, like ``Trial.source``. Dashboards display it."""

PARAMS = "fedbo:params"
"""System attribute of a trial with its proposed point. It is readable before the objective has asked for all parameters."""

FIXED = "fixed_params"
"""Optuna's system attribute with the values of an enqueued trial."""

OVERTAKEN_MAX = 10
"""Maximum number of attempts to propose a point that no other process proposes concurrently."""


class _WithIndependent(BaseSampler):
    """A sampler for single-objective studies that leaves parameters outside its search space to another sampler."""

    def __init__(self, independent_sampler: BaseSampler, warns: bool) -> None:
        self._independent_sampler = independent_sampler
        self._warns = _Warnings(type(self).__name__, warns)

    def _is_meant(self, study: optuna.Study, trial: FrozenTrial, name: str) -> bool:
        """Return True if the parameter may be sampled independently without a warning."""
        raise NotImplementedError

    def _check(self, study: optuna.Study) -> None:
        _check_single_objective(type(self).__name__, study)

    def reseed_rng(self) -> None:
        """Reseed the independent sampler. This sampler itself needs no new seed in another worker."""
        self._independent_sampler.reseed_rng()

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Sample a parameter outside the search space with the independent sampler."""
        self._check(study)
        if self._warns.is_new(param_name) and not self._is_meant(study, trial, param_name):
            self._warns.independent(param_name, trial, self._independent_sampler)
        return self._independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Let the independent sampler prepare for the trial."""
        self._independent_sampler.before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Notify the independent sampler that the trial has ended."""
        self._independent_sampler.after_trial(study, trial, state, values)


class FedboSampler(_WithIndependent):
    """A sampler for single-objective studies that proposes points with a fedbo strategy.

    The sampler reads all its data from the study, so any number of threads and processes may sample for one study, with any Optuna
    storage. Points of failed and pruned trials are not tried again, and strategies avoid regions with many failures. Running and
    waiting trials are taken into account as open points.

    ``search_space``
        Distributions of the parameters by name, Optuna's or fedbo's. Defaults to the parameters that all complete trials have in
        common, as in Optuna's own samplers; the first trial is then sampled independently. A fedbo parameter may have a condition,
        such as ``fedbo.Float(0.0, 0.5, when={"booster": "dart"})``: the objective suggests it only where it holds. Optuna has no distribution of given numbers
        or of ordered choices, and regards those of fedbo as categorical, with numbers in ascending order: for
        ``fedbo.Int(values=[16, 32, 128])`` call ``trial.suggest_categorical(name, [16, 32, 128])``.
    ``strategy``, ``strategy_options``
        The strategy, by its name in a ``study.toml``, and its options there.
    ``n_startup_trials``
        Number of initial points from a Sobol sequence. Defaults to two per parameter, but at least 5 and at most 20.
    ``seed``
        Seed of all random numbers: equal trials and seeds give equal points. By default, the seed is random.
    ``noisy``
        True if repeated evaluations of a point give different values. Points may then be tried again. If False, they are tried again
        only once every point was tried.
    ``independent_sampler``
        Sampler of all other parameters, such as conditional ones. Defaults to ``RandomSampler``.
    ``warn_independent_sampling``
        Log a warning for each parameter that is sampled independently.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> space = {"x": optuna.distributions.FloatDistribution(-2, 2)}
    >>> study = optuna.create_study(sampler=FedboSampler(space, seed=0))
    >>> study.optimize(lambda trial: trial.suggest_float("x", -2, 2) ** 2, n_trials=15)
    >>> study.best_value < 0.05
    True
    """

    def __init__(
        self,
        search_space: Mapping[str, BaseDistribution | ParameterLike] | None = None,
        *,
        strategy: str | None = "log-ei",
        strategy_options: Mapping[str, object] | None = None,
        n_startup_trials: int | None = None,
        seed: int | None = None,
        noisy: bool = False,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        self._search_space = None if search_space is None else _distributions(search_space)
        self._similar = _similar(search_space)
        self._options: dict[str, Any] = {
            "strategy": strategy,
            "strategy_options": dict(strategy_options or {}),
            "seed": new_seed() if seed is None else seed,
            "initial": n_startup_trials,
            "noisy": noisy,
        }
        super().__init__(independent_sampler or RandomSampler(seed=seed), warn_independent_sampling)
        self._forget()
        # Raise errors about invalid arguments here instead of in the first trial.
        space = self._search_space or {"x": FloatDistribution(0.0, 1.0)}
        Queries("FedboSampler", _parameters(space, self._similar), direction="minimize", **self._options)

    def _forget(self) -> None:
        """Use an empty cache and a new lock in this process."""
        self._process = os.getpid()
        self._cache: tuple[object, Queries] | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_process", "_cache", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._forget()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the given search space, or the parameters common to all complete trials except those with a single value."""
        self._check(study)
        space = self._search_space
        if space is None:
            trials = study.get_trials(deepcopy=False)
            space = optuna.search_space.intersection_search_space(trials)
        return _searched(space, self._similar)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Propose a point with the strategy, given all trials of the study."""
        self._check(study)
        fixed = trial.system_attrs.get(FIXED, {})
        if not search_space or search_space.keys() <= fixed.keys():
            return {}
        if self._process != os.getpid():  # after a fork, a thread of the parent may hold the lock
            self._forget()
        with self._lock:
            queries = self._queries(study, search_space)
            params: dict[str, Any] = {}
            source = ""
            for _ in range(OVERTAKEN_MAX):
                told, others = _told_and_open(queries, study, trial)
                proposed = queries.propose(told, others, trial.number)
                if proposed is None:
                    self._warns.once(
                        "every point",
                        "every point of the search space was tried, so from here on points are tried again, as with noisy=True",
                    )
                    queries = self._queries(study, search_space, noisy=True)
                    proposed = queries.propose(told, others, trial.number)
                    assert proposed is not None
                code, source = proposed
                params = queries.decode(code)
                # Other processes can see the point before the objective has asked for all parameters.
                study._storage.set_trial_system_attr(trial._trial_id, PARAMS, params)
                if queries.noisy or not _is_tried(code, *_told_and_open(queries, study, trial)):
                    break
            study._storage.set_trial_user_attr(trial._trial_id, SOURCE, source)
        return params

    def _queries(
        self, study: optuna.Study, space: Mapping[str, BaseDistribution], *, noisy: bool = False
    ) -> Queries:
        options = {**self._options, "noisy": noisy or self._options["noisy"]}
        key = (study.direction, options["noisy"], tuple((name, repr(each)) for name, each in space.items()))
        if self._cache is None or self._cache[0] != key:
            maximizes = study.direction == optuna.study.StudyDirection.MAXIMIZE
            queries = Queries(
                "FedboSampler",
                _parameters(space, self._similar),
                direction="maximize" if maximizes else "minimize",
                **options,
            )
            self._cache = (key, queries)
        return self._cache[1]

    def _is_meant(self, study: optuna.Study, trial: FrozenTrial, name: str) -> bool:
        # Without a given space, the first trial of a study is sampled independently.
        if self._search_space is None and not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            return True
        return name in self.infer_relative_search_space(study, trial) and self._exists(name, trial)

    def _exists(self, name: str, trial: FrozenTrial) -> bool:
        given = self._similar.get(name)
        return given is None or given.when is None or name in trial.system_attrs.get(PARAMS, {})


class AskedTrial(Protocol):
    """A trial that an agent asks for."""

    @property
    def number(self) -> int:
        """The agent's number for the trial."""
        ...

    @property
    def params(self) -> Mapping[str, Value]:
        """The point."""
        ...

    @property
    def source(self) -> str:
        """Source of the point."""
        ...


class Asker(Protocol):
    """An object that proposes points and is told their values: a ``fedbo.Agent`` or a :class:`fedbo.Study`."""

    def ask(self) -> Any:
        """Ask for the next trial, an :class:`AskedTrial`."""

    def tell(self, trial: Any, value: float | None = None, *, failed: str | None = None) -> object:
        """Tell the value of a trial, or the reason for its failure."""


class FederatedSampler(_WithIndependent):
    """A sampler for single-objective studies that takes its points from an agent of a federation.

    Every trial of the Optuna study is a trial of the agent. The agent is told its value, failure or pruning before the trial ends.
    Nothing that the agent exchanges with others is stored in Optuna's storage. An agent belongs to one process, and so does
    this sampler.

    ``space``
        Search space of the federation: fedbo's parameters by name, or Optuna's distributions.
    ``agent``
        Any object with ``ask()`` and ``tell(trial, value)`` or ``tell(trial, failed="why")``.
    ``independent_sampler``
        Sampler of parameters outside the federation's space, which the agent does not see. Defaults to ``RandomSampler``.
    ``warn_independent_sampling``
        Log a warning for each parameter that is sampled independently.

    An enqueued trial that fixes a parameter of the shared space is not a trial of the agent. The agent is not told its result.

    >>> import optuna, fedbo
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> space = {"x": fedbo.Float(-2, 2)}
    >>> agent = fedbo.Study("stand-in", space, direction="minimize")
    >>> study = optuna.create_study(sampler=FederatedSampler(space, agent))
    >>> study.optimize(lambda trial: trial.suggest_float("x", -2, 2) ** 2, n_trials=8)
    >>> len(agent.trials)
    8
    """

    def __init__(
        self,
        space: Mapping[str, BaseDistribution | ParameterLike],
        agent: Asker,
        *,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        self._space = _distributions(space)
        self._agent = agent
        super().__init__(independent_sampler or RandomSampler(), warn_independent_sampling)
        self._held: dict[tuple[str, int], tuple[AskedTrial, int]] = {}
        self._lock = threading.Lock()
        self._asking = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            "a FederatedSampler belongs to the process of its agent and cannot be sent to another; make one there"
        )

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the search space of the federation."""
        self._check(study)
        return dict(self._space)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Ask the agent for the next point."""
        self._check(study)
        fixed = trial.system_attrs.get(FIXED, {})
        if fixed.keys() & self._space.keys():
            return {}
        with self._asking:  # a separate lock, so that other threads can tell results meanwhile
            asked: AskedTrial = self._agent.ask()
            self._hold((study.study_name, trial.number), asked)
        params = dict(asked.params)
        study._storage.set_trial_system_attr(trial._trial_id, PARAMS, params)
        study._storage.set_trial_user_attr(trial._trial_id, SOURCE, asked.source)
        study._storage.set_trial_user_attr(trial._trial_id, "fedbo:number", asked.number)
        return params

    def _hold(self, key: tuple[str, int], asked: AskedTrial) -> None:
        thread = threading.get_ident()
        with self._lock:
            for other, (held, holder) in list(self._held.items()):
                if held.number != asked.number:
                    continue
                if holder != thread:
                    raise fedbo.Error(
                        f"trial {asked.number} of the agent is being evaluated, as trial {other[1]} of study {other[0]!r}: this agent "
                        "has one trial at a time, so use optimize(n_jobs=1)"
                    )
                # The other trial was abandoned without a result, so the agent returned its point again.
                del self._held[other]
            self._held[key] = (asked, thread)

    def _is_meant(self, study: optuna.Study, trial: FrozenTrial, name: str) -> bool:
        return name in self._space

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Tell the agent the result of the trial."""
        super().after_trial(study, trial, state, values)
        with self._lock:
            asked, _ = self._held.pop((study.study_name, trial.number), (None, 0))
        if asked is None:
            return
        given = {name: asked.params[name] for name in trial.params if name in self._space}
        actual = {name: trial.params[name] for name in given}
        value = values[0] if state == TrialState.COMPLETE and values else math.nan
        if given != actual:
            failed = f"evaluated at another point: {actual} instead of {given}"
            self._agent.tell(asked, failed=failed)
        elif math.isfinite(value):
            self._agent.tell(asked, value)
        elif state == TrialState.COMPLETE:
            self._agent.tell(asked, failed=f"the value {value} is not a finite number")
        else:
            self._agent.tell(asked, failed=f"the trial ended as {state.name}")

    def _check(self, study: optuna.Study) -> None:
        super()._check(study)
        direction = getattr(self._agent, "direction", None)
        ours = study.direction.name.lower()
        if direction is not None and direction != ours:
            raise DefinitionError(
                f"the agent's direction is {direction!r}, and that of study {study.study_name!r} {ours!r}; create the study with "
                f"direction={direction!r}"
            )


def import_study(
    optuna_study: optuna.Study,
    storage: str | os.PathLike[str] = "memory:",
    name: str | None = None,
    *,
    space: Mapping[str, BaseDistribution | ParameterLike] | None = None,
    noisy: bool | None = None,
    outside: Literal["skip", "refuse"] = "skip",
) -> fedbo.Study:
    """Create a fedbo study from the complete trials of an Optuna study, in completion order.

    New studies can learn from it: ``fedbo.Study(.., old_studies=["sqlite:old.db"])``. If the storage already has the study, only
    missing trials are added, so an interrupted import can be repeated.

    ``optuna_study``
        The study, for instance ``optuna.load_study(study_name="ovens", storage="sqlite:///optuna.db")``. Several objectives get the
        study's metric names, or ``objective_0``, and so on. Constraints (``constraints_func``, ``set_constraint``) get the bound
        ``at_most`` 0, and are named ``constraint_0``, and so on, or by their keys.
    ``storage``, ``name``
        Storage and name of the new study. The name defaults to that of the Optuna study.
    ``space``
        The search space. Defaults to the parameters that all complete trials have in common. The choice None becomes the string
        "None".
    ``noisy``
        True if repeated evaluations of a point give different values. Defaults to the setting of the stored study; for a new study,
        to True if a point occurs twice.

    ``outside``
        Treatment of trials with a point outside the space: they are skipped and counted in a log message, or all trials are refused.

    Trials with an infinite outcome, or without some of the parameters or constraints, are skipped.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> old = optuna.create_study(study_name="old")
    >>> old.optimize(lambda trial: trial.suggest_float("x", -2, 2) ** 2, n_trials=5)
    >>> len(import_study(old).trials)
    5
    """
    if outside not in ("skip", "refuse"):
        raise DefinitionError(f"outside = {outside!r}, expected 'skip' or 'refuse'")
    complete = optuna_study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if space is None:
        distributions = optuna.search_space.intersection_search_space(list(complete))
    else:
        distributions = _distributions(space)
    distributions = _searched(distributions, _similar(space))
    described = _parameters(distributions, _similar(space))
    if not distributions:
        raise DefinitionError(
            f"the complete trials of study {optuna_study.study_name!r} have no parameter in common; choose the parameters with space="
        )
    constraints = sorted({key for trial in complete for key in _constraints(trial)})
    points: list[tuple[dict[str, Value], list[float]]] = []
    numbers_outside: list[int] = []
    for trial in sorted(complete, key=_order_of_ending):
        bounded = _constraints(trial)
        names = [key for key in distributions if exists(described, key, trial.params)]
        if bounded.keys() != set(constraints) or not set(names) <= trial.params.keys():
            continue
        numbers = [*(trial.values or ()), *(bounded[key] for key in constraints)]
        if not all(math.isfinite(number) for number in numbers):
            continue
        given = {key: trial.params[key] for key in names}
        if all(distributions[key]._contains(distributions[key].to_internal_repr(each)) for key, each in given.items()):
            points.append(({key: stored(each) for key, each in given.items()}, numbers))
        else:
            numbers_outside.append(trial.number)
    if numbers_outside:
        count = f"{len(numbers_outside)} of {len(complete)} complete trials of study {optuna_study.study_name!r}"
        shown = ", ".join(map(str, sorted(numbers_outside)[:5])) + (", .." if len(numbers_outside) > 5 else "")
        if outside == "refuse":
            raise DefinitionError(f"{count} are outside the space ({shown}); widen space=, or leave them out with outside='skip'")
        logger.warning("%s are outside the space and are left out: %s", count, shown)
    name, address = name or optuna_study.study_name, storage_address(storage)
    if noisy is None:
        noisy = _stored_noise(address, name)
    if noisy is None:
        noisy = len({repr(point) for point, _ in points}) < len(points)
    directions = [
        "maximize" if each == optuna.study.StudyDirection.MAXIMIZE else "minimize" for each in optuna_study.directions
    ]
    parameters = {
        key: replace(each, choices=[stored(choice) for choice in each.choices]) if isinstance(each, Categorical) else each
        for key, each in described.items()
    }
    direction = directions[0] if len(directions) == 1 else None
    tables: dict[str, Any] = study_tables(name, parameters, direction=direction, storage=address, noisy=noisy)
    if direction is None:
        names = optuna_study.metric_names or [f"objective_{index}" for index in range(len(directions))]
        tables["objectives"] = [
            {"name": each, "direction": direction} for each, direction in zip(names, directions, strict=True)
        ]
    if constraints:
        tables["constraints"] = [{"name": key, "at_most": 0.0} for key in constraints]
    return fedbo.Study._imported(tables, points)


def _constraints(trial: FrozenTrial) -> dict[str, float]:
    """Return the finite constraint values of a trial by name."""
    found: dict[str, float] = {}
    for attribute, value in trial.system_attrs.items():
        if attribute == "constraints":
            found |= {f"constraint_{index}": float(number) for index, number in enumerate(value)}
        elif attribute.startswith("constraints:"):
            key = re.sub(r"[^\w.-]", "_", attribute.removeprefix("constraints:"))
            found[f"constraint_{key}" if key.isdigit() else key] = float(value)
    return found


def _stored_noise(storage: str, name: str) -> bool | None:
    """Return the setting ``noisy`` of a stored study, or ``None`` if there is no such study."""
    try:
        return fedbo.Study.load(storage, name).noisy
    except fedbo.Error:  # any other error recurs in the import itself
        return None


class _Warnings:
    """Messages that were already logged."""

    def __init__(self, sampler: str, speaks: bool) -> None:
        self._sampler, self._speaks = sampler, speaks
        self._said: set[str] = set()

    def is_new(self, what: str) -> bool:
        return self._speaks and what not in self._said

    def once(self, what: str, message: str) -> None:
        if what not in self._said:
            self._said.add(what)
            logger.warning("%s: %s", self._sampler, message)

    def independent(self, name: str, trial: FrozenTrial, by: BaseSampler) -> None:
        self.once(
            name,
            f"parameter {name!r} of trial {trial.number} is not in the search space, so {by} samples it independently of the "
            "others; warn_independent_sampling=False disables this warning",
        )


def _check_single_objective(what: str, study: optuna.Study) -> None:
    if len(study.directions) > 1:
        raise DefinitionError(
            f"{what} works on studies of one objective, and study {study.study_name!r} has {len(study.directions)}; use one of "
            "Optuna's samplers for several"
        )


def _order_of_ending(trial: FrozenTrial) -> tuple[datetime, int]:
    return (trial.datetime_complete or datetime.max, trial.number)


def _told_and_open(
    queries: Queries, study: optuna.Study, trial: FrozenTrial
) -> tuple[list[Ended], list[Code]]:
    """Return the finished trials in completion order, and the points of open trials except for the given trial."""
    ended: list[tuple[FrozenTrial, Ended]] = []
    open_points: list[Code] = []
    for other in study.get_trials(deepcopy=False):
        if other.number == trial.number:
            continue
        attributes = other.system_attrs
        code = queries.encode({**attributes.get(PARAMS, {}), **attributes.get(FIXED, {}), **other.params})
        if code is None:
            continue
        if not other.state.is_finished():
            open_points.append(code)
            continue
        value = other.value if other.state == TrialState.COMPLETE else None
        if value is not None and not math.isfinite(value):
            value = None
        ended.append((other, (code, value, other.user_attrs.get(SOURCE, "enqueued"))))
    ended.sort(key=lambda each: _order_of_ending(each[0]))
    return [told for _, told in ended], open_points


def _is_tried(code: Code, told: list[Ended], open_points: list[Code]) -> bool:
    return code in open_points or any(code == other for other, _, _ in told)


def _distributions(
    space: Mapping[str, BaseDistribution | ParameterLike],
) -> dict[str, BaseDistribution]:
    return {
        name: given if isinstance(given, BaseDistribution) else _distribution(parameter(name, given))
        for name, given in space.items()
    }


def _distribution(given: Parameter) -> BaseDistribution:
    if isinstance(given, Categorical):
        return CategoricalDistribution(tuple(given.choices))  # type: ignore[arg-type]
    if given.values is not None:
        return CategoricalDistribution(tuple(given.values))
    assert given.low is not None and given.high is not None
    if isinstance(given, Int):
        return IntDistribution(given.low, given.high, log=given.log, step=given.step or 1)
    return FloatDistribution(given.low, given.high, log=given.log, step=given.step)


def _similar(space: Mapping[str, BaseDistribution | ParameterLike] | None) -> dict[str, Parameter]:
    """Return the parameters with values, ordered choices or conditions, which distributions do not describe."""
    given = {name: each for name, each in (space or {}).items() if isinstance(each, (Float, Int, Categorical))}
    return {
        name: each
        for name, each in given.items()
        if each.when is not None or (each.ordered if isinstance(each, Categorical) else each.values is not None)
    }


def _searched(space: Mapping[str, BaseDistribution], similar: Mapping[str, Parameter]) -> dict[str, BaseDistribution]:
    """Leave out the parameters with a single value, unless others depend on them."""
    parents = {parent for each in similar.values() for parent in each.when or {}}
    return {name: each for name, each in space.items() if not each.single() or name in parents}


def _parameters(space: Mapping[str, BaseDistribution], similar: Mapping[str, Parameter]) -> dict[str, Parameter]:
    return {name: similar.get(name) or _parameter(name, each) for name, each in space.items()}


def _parameter(name: str, given: BaseDistribution) -> Parameter:
    if isinstance(given, FloatDistribution):
        return Float(given.low, given.high, given.log, given.step)
    if isinstance(given, IntDistribution):
        return Int(given.low, given.high, given.log, None if given.step == 1 else given.step)
    if isinstance(given, CategoricalDistribution):
        return choices(given.choices)
    raise DefinitionError(
        f"parameter {name!r}: expected a FloatDistribution, IntDistribution or CategoricalDistribution, got {given!r}"
    )
