"""Simulated federations in one process: several parties, each with its own function."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedbo import _fedbo, _space
from fedbo._answer import translated
from fedbo._errors import DefinitionError, Error, ObjectiveError
from fedbo._executors import Executor, n_workers
from fedbo._interrupt import resumable
from fedbo._objective import Evaluator, Objective, logger, number
from fedbo._space import Mixture, Parameter, ParameterLike, Rule, Value
from fedbo._study import Study
from fedbo._trial import dataframe

if TYPE_CHECKING:
    import pandas as pd

    from fedbo._study import Direction

Observations = Iterable[tuple[Mapping[str, object], float]] | Study | str | os.PathLike[str]
"""Previous trials of a party: pairs of a point and its value, a study, or the location of a study or a table."""

FederationCallback = Callable[["Federation", "FederationTrial"], object]
"""A function that is called after every trial of a simulation."""


@dataclass(frozen=True)
class FederationTrial:
    """A trial of an agent in a simulation."""

    arm: str
    """Name of the arm: the algorithm or a control."""
    agent: str
    """Name of the agent."""
    run: int
    """Index of the repetition, from 0. Runs with the same index use the same seeds in all arms."""
    iteration: int
    """Number of the query, starting at 1. Initial points have numbers up to 0."""
    params: Mapping[str, Value]
    """The point."""
    value: float | None
    """The value; ``None`` if the trial failed."""
    best: float | None
    """The agent's best value so far."""
    source: str
    """Source of the point: an initial point, the agent's own model, another agent's message or a release, with the trust in it."""
    message: str | None = None
    """Reason for a failure."""
    ask_seconds: float = field(default=0.0, compare=False)
    """Time taken to propose the point, in seconds."""


@dataclass(frozen=True)
class ArmSummary:
    """Final results of the agents in one arm."""

    arm: str
    """Name of the arm."""
    mean: float | None
    """Mean of the best values over agents and runs."""
    standard_error: float | None
    """Standard error of the mean over runs. ``None`` for a single run, because the agents of a run count as one value."""
    n: int
    """Number of independent values in the mean."""
    trials: int
    """Number of trials, including failed ones."""
    failed: int
    """Number of failed trials."""
    sources: Mapping[str, int]
    """Number of trials by the source of their points."""
    ask_seconds_mean: float
    """Mean time per proposal, in seconds."""


@dataclass(frozen=True)
class Comparison:
    """Paired difference between an arm and a control, for the same agents in runs with the same seeds."""

    arm: str
    """Name of the arm."""
    control: str
    """Name of the control."""
    iteration: int | None
    """Number of the query after which the arms are compared; ``None`` for the end."""
    mean: float | None
    """Mean of the arm minus the control."""
    standard_error: float | None
    """Standard error of the mean."""
    low: float | None
    """Lower end of Student's 95 % confidence interval, not adjusted for multiple comparisons."""
    high: float | None
    """Upper end of the interval."""
    p_value: float | None
    """Two-sided p-value of Student's paired t-test, not adjusted for multiple comparisons."""
    p_adjusted: float | None
    """P-value after Holm's correction over all comparisons."""
    n: int
    """Number of independent differences."""
    verdict: Literal["gain", "loss", "unclear"]
    """``gain`` or ``loss`` if there are at least three values and the adjusted p-value is below 5 %, otherwise ``unclear``."""


@dataclass(frozen=True)
class FederationResult:
    """Trials, arms and differences of a simulation, with the same statistics and plot as ``fedbo run``."""

    name: str
    """Name of the federation."""
    ended: Literal["complete", "stopped"]
    """``stopped`` if a callback stopped the simulation before all trials had finished."""
    rows: tuple[FederationTrial, ...]
    """The trials, in the order of the results file."""
    arms: tuple[ArmSummary, ...]
    """Final results by arm."""
    differences: tuple[Comparison, ...]
    """The first arm compared with each of the others."""
    metric: str
    """The compared quantity, ``best`` or ``regret``."""
    spent: str | None
    """Description of the privacy cost that was charged."""
    svg: str
    """Curves of all arms, as SVG text."""
    folder: Path | None
    """The results folder, if one was given."""
    _table: str = field(repr=False)
    _parameters: tuple[str, ...] = field(repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the trials as a pandas DataFrame: one row per trial, parameters in columns ``params_NAME``."""
        before = ("arm", "run", "agent", "iteration", "source")
        return dataframe(self.rows, before, self._parameters, ("value", "best", "ask_seconds", "message"))

    def summary(self) -> pd.DataFrame:
        """Return the arms as a pandas DataFrame. :attr:`arms` has the same data and does not need pandas."""
        import pandas as pd

        names = ["arm", "mean", "standard_error", "n", "trials", "failed", "ask_seconds_mean"]
        return pd.DataFrame([{name: getattr(arm, name) for name in names} for arm in self.arms], columns=names)

    def comparisons(self) -> pd.DataFrame:
        """Return the paired differences as a pandas DataFrame. :attr:`differences` has the same data and does not need pandas."""
        import pandas as pd

        return pd.DataFrame([vars(each) for each in self.differences], columns=list(Comparison.__dataclass_fields__))

    def __str__(self) -> str:
        return self._table

    def _repr_html_(self) -> str:
        return f"<h4>Federation {escape(self.name)}</h4><pre>{escape(self._table)}</pre>{self.svg}"


class Federation:
    """Several parties that optimize together in one process. They share a search space and an algorithm.

    Equal definitions, seeds and functions give equal trials, both here and in ``fedbo run``.

    ``name``
        Name of the federation and of its results.
    ``space``
        Parameters by name, the same for all parties.
    ``agents``
        Names of the parties.
    ``algorithm``
        The algorithm, by its name in a ``federation.toml``.
    ``rounds``
        Number of queries of each party after its initial points.
    ``direction``
        ``"maximize"`` or ``"minimize"``.
    ``seed``
        Seed of all random numbers, except the noise of releases that are charged to a budget.
    ``initial``
        Number of initial points of each party.
    ``noisy``
        True if repeated evaluations of a point give different values. Points may then be tried again.
    ``rules``, ``mixtures``
        Linear rules between parameters (:class:`Rule`) and shares of a total (:class:`Mixture`), which every point satisfies.
    ``observations``
        Previous trials by party, for parties that only share them and make no queries: pairs of a dict and a value, a
        :class:`Study`, or a string as in a ``federation.toml``, ``"sqlite:FILE#STUDY"`` or ``"FILE.csv"``. Each of these parties sends
        one message about its trials before the first round.
    ``options``
        Keys of the algorithm's table in a ``federation.toml``.
    ``tables``
        Further tables of that file, such as ``features``, ``privacy``, ``exploration``, ``topology``, ``surrogate``.

    Raises :class:`DefinitionError` if an argument is invalid.

    >>> import fedbo
    >>> labs = fedbo.Federation("labs", {"x": fedbo.Float(0, 1)}, agents=["north", "south"], rounds=5, direction="maximize")
    >>> result = labs.simulate({"north": lambda p: -abs(p["x"] - 0.3), "south": lambda p: -abs(p["x"] - 0.4)})
    >>> len(result.rows)  # 3 initial points and 5 queries of each party
    16
    """

    def __init__(
        self,
        name: str,
        space: Mapping[str, ParameterLike],
        *,
        agents: Sequence[str],
        rounds: int,
        direction: Direction,
        algorithm: str = "shared-prior",
        seed: int = 0,
        initial: int | None = None,
        noisy: bool = False,
        rules: Sequence[Rule] = (),
        mixtures: Sequence[Mixture] = (),
        observations: Mapping[str, Observations] | None = None,
        options: Mapping[str, object] | None = None,
        **tables: Mapping[str, object],
    ) -> None:
        if isinstance(agents, str):
            raise TypeError(f"agents={agents!r} is a single string; give the names of the parties as a list")
        _space.text("algorithm", algorithm)
        parameters = {key: _space.parameter(key, given) for key, given in space.items()}
        texts = _space.Texts(parameters)
        written: dict[str, Any] = {
            "federation": {
                "name": name,
                "direction": direction,
                "algorithm": algorithm,
                "rounds": rounds,
                "seed": seed,
                "initial": initial,
                "noisy": noisy,
            },
            "space": {key: each._keys() for key, each in parameters.items()},
            **_space.rule_tables(rules, mixtures),
        }
        if options:
            written[_fedbo.Federation.table_of(algorithm) or algorithm] = options
        for table, keys in tables.items():
            if table.replace("_", "-") in written:
                raise DefinitionError(f"{table}: pass the keys of this table as separate arguments")
            written[table.replace("_", "-")] = keys
        roster = _space.inline([{"name": agent} for agent in agents])
        native = _fedbo.Federation.from_text(f"agents = {roster}\n{_space.toml(written)}")
        for agent, given in _space.mapping("observations", observations or {}, "trials by the names of parties").items():
            native = _observed(native, _space.text("observations", agent), given, texts)
        self._take(native, texts)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, seed: int | None = None) -> Federation:
        """Read a ``federation.toml``. ``seed`` overrides the seed of the file.

        Agents of the file may have commands or built-in problems as objectives. A simulation uses them for agents without a function.
        """
        if seed is not None:
            seed = _space.whole("seed", seed, 0, 2**64 - 1)
        return cls.__new__(cls)._take(_fedbo.Federation.from_file(Path(path), seed))

    def _take(self, native: _fedbo.Federation, texts: _space.Texts | None = None) -> Federation:
        self._native = native
        self._texts = texts or _space.Texts()
        self._stop = threading.Event()
        return self

    @property
    def name(self) -> str:
        """Name of the federation."""
        return self._native.name

    @property
    def space(self) -> dict[str, Parameter]:
        """Parameters in their order."""
        return self._texts.space(self._native.space)

    @property
    def direction(self) -> Direction:
        """``"minimize"`` or ``"maximize"``."""
        return "minimize" if self._native.direction == "minimize" else "maximize"

    @property
    def algorithm(self) -> str:
        """Name of the algorithm."""
        return self._native.algorithm

    @property
    def agents(self) -> list[str]:
        """Names of the parties, in their order."""
        return [name for name, _ in self._native.agents]

    @property
    def arms(self) -> list[str]:
        """Arms that a simulation can compare: the algorithm and its controls."""
        return list(self._native.arms)

    @property
    def rounds(self) -> int:
        """Number of queries of each party after its initial points."""
        return self._native.rounds

    @property
    def seed(self) -> int:
        """Seed of all random numbers, except the noise of releases that are charged to a budget."""
        return self._native.seed

    def stop(self) -> None:
        """End a running :meth:`simulate` once the current trials have finished. For use in callbacks."""
        self._stop.set()

    def simulate(
        self,
        objectives: Mapping[str, Objective],
        arms: Sequence[str] | None = None,
        *,
        n_runs: int | None = None,
        n_jobs: int | None = None,
        executor: Executor | None = None,
        failures_max: int | None = None,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        overwrite: bool = False,
        spend_again: bool = False,
        callbacks: Iterable[FederationCallback] = (),
        show_progress_bar: bool = False,
    ) -> FederationResult:
        """Run the whole federation in this process, as ``fedbo run`` does, with functions as objectives.

        If a function raises an exception, the trial fails, and the failure is recorded and logged. Ctrl-C ends the simulation. With
        ``out``, finished trials are kept, and ``resume`` continues from there.

        ``objectives``
            Functions by party, as in :meth:`Study.optimize`. Other parties use the objective in the file.
        ``arms``
            Names of the arms to run with the same seeds, from :attr:`arms`. The first one is compared with the others. Defaults to the
            algorithm and, with ``n_runs``, also its controls.
        ``n_runs``
            Number of repetitions of all arms. Each uses different random numbers, which are the same in every arm. By default, there is
            one run with the seed itself.
        ``n_jobs``
            Number of concurrent trials and proposals. Above 1, functions run in threads unless there is an ``executor``. With the
            default of 1, functions are called one after another on this thread. The results do not depend on ``n_jobs`` unless the
            functions do.
        ``executor``
            Any object with a ``submit`` method, as in :meth:`Study.optimize`.
        ``failures_max``
            End after this many consecutive failures of a party; 0 means never. By default, end after five failures before the party's
            first value.
        ``out``
            The results folder, with ``results.csv``, ``summary.json`` and pictures. By default, nothing is kept. Required if releases
            are charged to a privacy budget, because the folder contains their ledger.
        ``resume``, ``overwrite``, ``spend_again``
            Treatment of existing results in the folder, like the options of ``fedbo run``.
        ``callbacks``
            Called with the federation and each trial. A callback may call :meth:`stop`.
        ``show_progress_bar``
            Show a tqdm progress bar.

        Raises :class:`ObjectiveError` after too many failures. Its cause is the last exception.
        """
        objectives = _space.mapping("objectives", objectives, "a function for each party's name")
        missing = [name for name, has_own in self._native.agents if not has_own and name not in objectives]
        if missing:
            raise DefinitionError(f"no function is given for {', '.join(map(repr, missing))}: add one to objectives")
        if n_runs is not None:
            n_runs = _space.whole("n_runs", n_runs, 1, 2**32 - 1)
        if isinstance(arms, str):
            arms = [arms]
        if arms is not None:
            arms = [_space.text("arms", arm) for arm in arms]
        chosen = list(arms or self._native.default_arms(n_runs))
        jobs = n_jobs
        if jobs is None:
            jobs = n_workers(executor) if executor is not None else 1
        jobs = _space.whole("n_jobs", jobs, 1)
        if failures_max is not None:
            failures_max = _space.whole("failures_max", failures_max, 0)
        if out is None and self._native.is_charged and self._native.arms[0] in chosen:
            raise DefinitionError(
                f"the releases of arm {self._native.arms[0]} are charged to a privacy budget, and spending is permanent: name the "
                "folder of its ledger with out=.., or try it out with privacy={.., 'simulate': True}, which protects nobody"
            )
        if resume and overwrite:
            raise DefinitionError("resume continues with results and overwrite discards them: choose one of them")
        if out is None and (resume or overwrite or spend_again):
            raise DefinitionError("resume, overwrite and spend_again are about results in a folder: name it with out=..")
        index = {name: place for place, name in enumerate(self.agents)}
        unknown = [name for name in objectives if name not in index]
        if unknown:
            raise DefinitionError(
                f"no agent is named {unknown[0]!r}; the federation's are {', '.join(map(repr, index))}"
            )
        for name, function in objectives.items():
            if not callable(function):
                raise TypeError(f"objectives[{name!r}] = {function!r} is not a function")
        for name in self._native.contributors:
            if name in objectives:
                raise DefinitionError(f"agent {name!r} has earlier observations and makes no queries: give it no function")
        functions = {index[name]: function for name, function in objectives.items()}
        callbacks = tuple(callbacks)
        self._stop.clear()
        with contextlib.ExitStack() as stack:
            if out is not None:
                how = f"finished trials are in {os.fspath(out)}; call simulate again with resume=True to continue from there"
            else:
                how = "its trials are not kept; name a folder with out=.. to resume such a call later"
            stack.enter_context(resumable(f"the simulation of {self.name!r} has ended; {how}"))
            if out is not None:
                folder = Path(out)
            else:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedbo-")), "results")
            total = len(chosen) * (n_runs or 1) * (len(index) - len(self._native.contributors)) * (self._native.initial + self.rounds)
            bar = stack.enter_context(_bar(total)) if show_progress_bar else None
            if executor is None and jobs > 1:
                threads = ThreadPoolExecutor(jobs, thread_name_prefix=f"fedbo-{self.name}")
                stack.callback(threads.shutdown, wait=True, cancel_futures=True)
                executor = threads
            evaluator = Evaluator(functions, executor, texts=self._texts)

            def on_told(wave: dict[str, Any]) -> bool:
                for fields in wave["rows"]:
                    trial = _trial(fields, self._texts)
                    if bar is not None:
                        bar.update()
                    for callback in callbacks:
                        callback(self, trial)
                return self._stop.is_set()

            try:
                ended = self._native.simulate(
                    evaluator,
                    on_told,
                    logger.warning,
                    functions=list(objectives),
                    arms=chosen,
                    runs=n_runs,
                    out=folder,
                    overwrite=overwrite,
                    resume=resume,
                    spend_again=spend_again,
                    threads=jobs,
                    failures_max=failures_max,
                )
            except Error as error:
                evaluator.cancel()
                raise translated(error) from None
            except BaseException:
                evaluator.cancel()
                raise
            if evaluator.broken is not None:
                raise evaluator.broken
            if ended["failing"] is not None:
                agent, arm, n_in_a_row, last = ended["failing"]
                raise ObjectiveError(
                    f"the simulation was ended as {n_in_a_row} trials in a row of agent {agent!r} failed (arm {arm}), the last one "
                    f"because {last} (failures_max=0 continues despite failures)"
                ) from evaluator.last_error
            svg = folder.joinpath("curves.svg").read_text(encoding="utf-8")
        document = json.loads(ended["summary"])
        return FederationResult(
            name=self.name,
            ended="complete" if ended["complete"] else "stopped",
            rows=tuple(_trial(fields, self._texts) for fields in ended["rows"]),
            arms=tuple(map(_arm, document["arms"])),
            differences=tuple(map(_comparison, document["differences"])),
            metric=document["metric"],
            spent=ended["spent"],
            svg=svg,
            folder=None if out is None else folder,
            _table=ended["table"],
            _parameters=tuple(self._native.space),
        )

    def __repr__(self) -> str:
        return (
            f"<Federation {self.name!r}: {', '.join(self.agents)} {self.direction} over {', '.join(self._native.space)}, "
            f"by {self.algorithm}, {self.rounds} rounds>"
        )


def _observed(native: _fedbo.Federation, agent: str, given: Observations, texts: _space.Texts) -> _fedbo.Federation:
    """Add previous trials of an agent to the federation."""
    if isinstance(given, (str, os.PathLike)):
        return native.with_observations_of(agent, _space.text("observations", os.fspath(given)))
    if isinstance(given, Study):
        pairs: Iterable[Any] = [(trial.params, trial.value) for trial in given.trials if trial.state == "complete"]
    else:
        pairs = given
    trials: list[tuple[dict[str, Value], float]] = []
    for pair in pairs:
        try:
            params, value = pair
        except (TypeError, ValueError):
            raise TypeError(f"observations[{agent!r}] has {pair!r}, expected pairs of a dict of parameters and a value") from None
        point = _space.mapping("observations", params, "values by the names of parameters")
        trials.append((texts.encode(point), number(value, f"a value of {agent!r} is")))
    return native.with_observations(agent, trials)


def _trial(fields: dict[str, Any], texts: _space.Texts) -> FederationTrial:
    fields["params"] = texts.decode(fields["params"])
    status = fields.pop("status")
    message = None if status == "ok" else status.removeprefix("failed: ")
    return FederationTrial(**fields, message=message)


def _estimate(estimate: dict[str, Any] | None) -> dict[str, Any]:
    found = estimate or {"mean": None, "standard_error": None, "n": 0}
    return {"mean": found["mean"], "standard_error": found.get("standard_error"), "n": found["n"]}


def _arm(document: dict[str, Any]) -> ArmSummary:
    return ArmSummary(
        arm=document["arm"],
        **_estimate(document["final"]),
        trials=document["trials"],
        failed=document["failed_trials"],
        sources=document["sources"],
        ask_seconds_mean=document["ask_seconds_mean"],
    )


def _comparison(document: dict[str, Any]) -> Comparison:
    interval = document["interval"] or {"low": None, "high": None}
    return Comparison(
        arm=document["arm"],
        control=document["control"],
        iteration=document["iteration"],
        **_estimate(document["estimate"]),
        low=interval["low"],
        high=interval["high"],
        p_value=document["p_value"],
        p_adjusted=document["p_adjusted"],
        verdict=document["verdict"],
    )


def _bar(total: int) -> Any:
    from tqdm.auto import tqdm

    return tqdm(total=total, unit="trial")
