"""fedbo inside Optuna: a sampler of one party, a sampler that an agent of a federation drives, and old studies from Optuna's.

    import optuna
    from fedbo.integrations.optuna import FedboSampler

    study = optuna.create_study(sampler=FedboSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("x", -2, 2) ** 2, n_trials=20)
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

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
from fedbo._space import Categorical, Float, Int, Parameter, ParameterLike, Value, parameter, study_tables
from fedbo._study import storage_address
from fedbo.integrations._queries import Code, Ended, Queries, choices, new_seed

__all__ = ["AskedTrial", "Asker", "FedboSampler", "FederatedSampler", "import_study"]

SOURCE = "fedbo:source"
"""The user attribute of a trial that names the source of its point, as ``Trial.source``; dashboards show it."""

PARAMS = "fedbo:params"
"""The system attribute of a trial with the point that was proposed for it, before its objective has asked for all of it."""

FIXED = "fixed_params"
"""Optuna's system attribute with the values of an enqueued trial."""

OVERTAKEN_MAX = 10
"""The number of times that a sampler makes way for another process that proposed the same point at the same moment."""


class _WithIndependent(BaseSampler):
    """A sampler of studies of one objective that leaves parameters outside of its search space to another sampler."""

    def __init__(self, independent_sampler: BaseSampler, warns: bool) -> None:
        self._independent_sampler = independent_sampler
        self._warns = _Warnings(type(self).__name__, warns)

    def _is_meant(self, study: optuna.Study, trial: FrozenTrial, name: str) -> bool:
        """True if a parameter needs no warning when it is sampled independently."""
        raise NotImplementedError

    def _check(self, study: optuna.Study) -> None:
        _check_single_objective(type(self).__name__, study)

    def reseed_rng(self) -> None:
        """Reseed the independent sampler; draws of this one need no other seed in another worker."""
        self._independent_sampler.reseed_rng()

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """A parameter outside of the search space, by the independent sampler."""
        self._check(study)
        if self._warns.is_new(param_name) and not self._is_meant(study, trial, param_name):
            self._warns.independent(param_name, trial, self._independent_sampler)
        return self._independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Let the independent sampler prepare."""
        self._independent_sampler.before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Let the independent sampler know of the end."""
        self._independent_sampler.after_trial(study, trial, state, values)


class FedboSampler(_WithIndependent):
    """A sampler that asks a strategy of fedbo for the next point, in studies of one objective.

    Everything that it knows of a study is read from the study itself, so any number of threads and processes may sample for one
    study, on any storage of Optuna's. Failed and pruned trials are points that did not succeed: they are not tried again, and
    strategies keep away from places where many fail. Trials that run or wait are taken into account as open points.

    ``search_space``
        The distributions of the parameters, Optuna's or fedbo's, by name. By default the parameters that every complete trial
        has had, as in Optuna's own samplers; then the first trial is sampled independently.
    ``strategy``, ``strategy_options``
        The strategy, by its name in a ``study.toml``, and its options there.
    ``n_startup_trials``
        Number of initial points of a Sobol sequence; by default two for each coordinate, from 5 to 20.
    ``seed``
        The seed of every draw: equal trials and seeds give equal points. By default another one each time.
    ``noisy``
        True if values of one point differ: points may then be tried again. If not, they are where no other is left.
    ``independent_sampler``
        The sampler of all other parameters, such as conditional ones; by default ``RandomSampler``.
    ``warn_independent_sampling``
        Log a warning for each parameter that the independent sampler is asked for.

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
        self._options: dict[str, Any] = {
            "strategy": strategy,
            "strategy_options": dict(strategy_options or {}),
            "seed": new_seed() if seed is None else seed,
            "initial": n_startup_trials,
            "noisy": noisy,
        }
        super().__init__(independent_sampler or RandomSampler(seed=seed), warn_independent_sampling)
        self._forget()
        # What cannot be used is refused here, not in the first trial.
        space = self._search_space or {"x": FloatDistribution(0.0, 1.0)}
        Queries("FedboSampler", _parameters(space), direction="minimize", **self._options)

    def _forget(self) -> None:
        """Begin anew in this process."""
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
        """The given search space, or what all complete trials have in common; without parameters that have a single value."""
        self._check(study)
        space = self._search_space
        if space is None:
            trials = study.get_trials(deepcopy=False)
            space = optuna.search_space.intersection_search_space(trials)
        return {name: each for name, each in space.items() if not each.single()}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The strategy's point, given all trials of the study."""
        self._check(study)
        fixed = trial.system_attrs.get(FIXED, {})
        if not search_space or search_space.keys() <= fixed.keys():
            return {}
        if self._process != os.getpid():  # in a fork, a thread that is not here may hold the lock
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
                # Others see the point before the objective has asked for all of it.
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
                _parameters(space),
                direction="maximize" if maximizes else "minimize",
                **options,
            )
            self._cache = (key, queries)
        return self._cache[1]

    def _is_meant(self, study: optuna.Study, trial: FrozenTrial, name: str) -> bool:
        # The first trial of a study without a given space is always sampled so.
        if self._search_space is None and not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            return True
        return name in self.infer_relative_search_space(study, trial)


class AskedTrial(Protocol):
    """A trial that an agent asks for."""

    @property
    def number(self) -> int:
        """Its number with the agent."""
        ...

    @property
    def params(self) -> Mapping[str, Value]:
        """Its point."""
        ...

    @property
    def source(self) -> str:
        """The source of its point."""
        ...


class Asker(Protocol):
    """Whatever asks for points and is told what they are worth: ``fedbo.Agent``, or a :class:`fedbo.Study`."""

    def ask(self) -> Any:
        """The next trial, an :class:`AskedTrial`."""

    def tell(self, trial: Any, value: float | None = None, *, failed: str | None = None) -> object:
        """Tell the value of a trial, or why it failed."""


class FederatedSampler(_WithIndependent):
    """A sampler that takes its points from an agent of a federation, in a study of one objective.

    Every trial of the Optuna study is one of the agent's, which is told its value, or that it failed or was pruned, before the
    trial ends. What the agent exchanges with others, and when, is its own business: nothing of that is kept in Optuna's storage. An
    agent belongs to one process, and so does this sampler.

    ``space``
        The federation's search space: fedbo's parameters by name, or Optuna's distributions.
    ``agent``
        Anything with ``ask()`` and ``tell(trial, value)`` or ``tell(trial, failed="why")``.
    ``independent_sampler``
        The sampler of parameters outside of the federation's space, of which the agent learns nothing; by default
        ``RandomSampler``.
    ``warn_independent_sampling``
        Log a warning for each such parameter.

    An enqueued trial that fixes a parameter of the shared space is none of the agent's: it is not told.

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
        """The federation's search space."""
        self._check(study)
        return dict(self._space)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The agent's next point."""
        self._check(study)
        fixed = trial.system_attrs.get(FIXED, {})
        if fixed.keys() & self._space.keys():
            return {}
        with self._asking:  # while others may tell
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
                # It was left without an end: the agent gives it once more.
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
        """Tell the agent how the trial ended."""
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
) -> fedbo.Study:
    """A study of fedbo with the complete trials of one of Optuna's, in the order in which they ended.

    New studies learn from it: ``fedbo.Study(.., old_studies=["sqlite:old.db"])``. Where the storage holds this study already, the
    trials that it has not yet are added; so an import that was interrupted goes on when it is done again.

    ``optuna_study``
        The study, of one objective.
    ``storage``, ``name``
        The place and the name of the new study; the name is by default that of Optuna's.
    ``space``
        The search space; by default the parameters that all complete trials have in common. The choice None becomes the text
        "None".
    ``noisy``
        True if values of one point differ; by default as the stored study says, or if a point occurs twice.

    Trials with an infinite value or with a point outside of the space are left out.

    >>> import optuna
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> old = optuna.create_study(study_name="old")
    >>> old.optimize(lambda trial: trial.suggest_float("x", -2, 2) ** 2, n_trials=5)
    >>> len(import_study(old).trials)
    5
    """
    _check_single_objective("import_study", optuna_study)
    complete = optuna_study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if space is None:
        distributions = optuna.search_space.intersection_search_space(list(complete))
    else:
        distributions = _distributions(space)
    distributions = {key: each for key, each in distributions.items() if not each.single()}
    if not distributions:
        raise DefinitionError(
            f"the complete trials of study {optuna_study.study_name!r} have no parameter in common; say which are meant by space="
        )
    points: list[tuple[dict[str, Value], float]] = []
    for trial in sorted(complete, key=_order_of_ending):
        value = trial.value
        if value is None or not math.isfinite(value) or not distributions.keys() <= trial.params.keys():
            continue
        given = {key: trial.params[key] for key in distributions}
        if all(each._contains(each.to_internal_repr(given[key])) for key, each in distributions.items()):
            points.append(({key: _storable(each) for key, each in given.items()}, value))
    name, address = name or optuna_study.study_name, storage_address(storage)
    if noisy is None:
        noisy = _stored_noise(address, name)
    if noisy is None:
        noisy = len({repr(point) for point, _ in points}) < len(points)
    maximizes = optuna_study.direction == optuna.study.StudyDirection.MAXIMIZE
    parameters = {
        key: Categorical([_storable(choice) for choice in each.choices]) if isinstance(each, Categorical) else each
        for key, each in _parameters(distributions).items()
    }
    tables = study_tables(
        name, parameters, direction="maximize" if maximizes else "minimize", storage=address, noisy=noisy
    )
    return fedbo.Study._imported(tables, points)


def _stored_noise(storage: str, name: str) -> bool | None:
    """Whether a stored study is noisy; None if there is none."""
    try:
        return fedbo.Study.load(storage, name).noisy
    except fedbo.Error:  # of another kind than that it is not there: the import meets it too
        return None


class _Warnings:
    """What was said already."""

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
            f"parameter {name!r} of trial {trial.number} is not in the search space, so {by} samples it, without a look at the "
            "others; warn_independent_sampling=False says that this is meant",
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
    """The trials that have ended, in that order, and the points of the others, but for one trial."""
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
        return CategoricalDistribution(tuple(given.choices))
    if isinstance(given, Int):
        return IntDistribution(given.low, given.high, log=given.log, step=given.step or 1)
    return FloatDistribution(given.low, given.high, log=given.log, step=given.step)


def _parameters(space: Mapping[str, BaseDistribution]) -> dict[str, Parameter]:
    return {name: _parameter(name, each) for name, each in space.items()}


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


def _storable(value: int | float | str | None) -> Value:
    return "None" if value is None else value
