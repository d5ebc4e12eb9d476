"""Federations in one process: several parties, each with a function of its own."""

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
from fedbo._objective import Evaluator, Objective, logger
from fedbo._space import Parameter, ParameterLike, Value
from fedbo._trial import dataframe

if TYPE_CHECKING:
    import pandas as pd

    from fedbo._study import Direction

FederationCallback = Callable[["Federation", "FederationTrial"], object]
"""Is called after every trial of a simulation."""


@dataclass(frozen=True)
class FederationTrial:
    """A trial of an agent in a simulation."""

    arm: str
    """The arm: the algorithm, or a control."""
    agent: str
    """The agent's name."""
    run: int
    """The repetition, from 0; equal numbers share their seeds between arms."""
    iteration: int
    """The query, from 1; initial points are 0 and below."""
    params: Mapping[str, Value]
    """Its point."""
    value: float | None
    """Its value; None if it failed."""
    best: float | None
    """The agent's best value so far."""
    source: str
    """The source of its point: initial, the agent's own model, another's message, a release, with the trust in it."""
    message: str | None = None
    """Why it failed."""
    ask_seconds: float = field(default=0.0, compare=False)
    """Seconds that were spent on proposing it."""


@dataclass(frozen=True)
class ArmSummary:
    """The agents of one arm at the end of their runs."""

    arm: str
    """The arm."""
    mean: float | None
    """The mean over agents and runs of the best value."""
    standard_error: float | None
    """Its standard error over runs; None for a single run, whose agents are one value together."""
    n: int
    """Number of independent values behind them."""
    trials: int
    """Trials, failed ones among them."""
    failed: int
    """Failed trials."""
    sources: Mapping[str, int]
    """Trials by the source of their points."""
    ask_seconds_mean: float
    """Seconds a proposal."""


@dataclass(frozen=True)
class Comparison:
    """The paired difference of an arm and a control: values of the same agents in runs with the same seeds."""

    arm: str
    """The arm."""
    control: str
    """The arm with which it is compared."""
    iteration: int | None
    """The query after which they are compared; None at the end."""
    mean: float | None
    """The mean of arm minus control."""
    standard_error: float | None
    """Its standard error."""
    low: float | None
    """The lower end of Student's 95 % confidence interval, by itself."""
    high: float | None
    """Its upper end."""
    p_value: float | None
    """Two-sided p-value of Student's paired t-test, by itself."""
    p_adjusted: float | None
    """The same after Holm's correction over all comparisons."""
    n: int
    """Number of independent differences."""
    verdict: Literal["gain", "loss", "unclear"]
    """``gain`` or ``loss`` where the adjusted p-value is below 5 % with at least three values; ``unclear`` otherwise."""


@dataclass(frozen=True)
class FederationResult:
    """The trials of a simulation, its arms, and their differences; computed and drawn as ``fedbo run`` does."""

    name: str
    """The federation's name."""
    ended: Literal["complete", "stopped"]
    """``stopped``: by a callback, before all trials were made."""
    rows: tuple[FederationTrial, ...]
    """The trials, one by one, in the order of the results file."""
    arms: tuple[ArmSummary, ...]
    """The arms at their ends."""
    differences: tuple[Comparison, ...]
    """The first arm compared with each of the others."""
    metric: str
    """The compared quantity, ``best`` or ``regret``."""
    spent: str | None
    """The privacy that was charged, in a sentence."""
    svg: str
    """The curves of all arms, as a picture in SVG."""
    folder: Path | None
    """The results folder, if one was named."""
    _table: str = field(repr=False)
    _parameters: tuple[str, ...] = field(repr=False)

    def to_dataframe(self) -> pd.DataFrame:
        """The trials as a table of pandas: a row a trial, parameters in columns ``params_NAME``."""
        before = ("arm", "run", "agent", "iteration", "source")
        return dataframe(self.rows, before, self._parameters, ("value", "best", "ask_seconds", "message"))

    def summary(self) -> pd.DataFrame:
        """The arms as a table of pandas; :attr:`arms` has the same without it."""
        import pandas as pd

        names = ["arm", "mean", "standard_error", "n", "trials", "failed", "ask_seconds_mean"]
        return pd.DataFrame([{name: getattr(arm, name) for name in names} for arm in self.arms], columns=names)

    def comparisons(self) -> pd.DataFrame:
        """The paired differences as a table of pandas; :attr:`differences` has the same without it."""
        import pandas as pd

        return pd.DataFrame([vars(each) for each in self.differences], columns=list(Comparison.__dataclass_fields__))

    def __str__(self) -> str:
        return self._table

    def _repr_html_(self) -> str:
        return f"<h4>Federation {escape(self.name)}</h4><pre>{escape(self._table)}</pre>{self.svg}"


class Federation:
    """Several parties that tune together: what all of them share, and by which algorithm.

    Equal definitions, seeds and functions give equal trials, here and in ``fedbo run``.

    ``name``
        Its name, also that of its results.
    ``space``
        A parameter for each name, the same for all parties.
    ``agents``
        The parties' names.
    ``algorithm``
        The algorithm, by its name in a ``federation.toml``.
    ``rounds``
        Queries of each party after its initial points.
    ``direction``
        ``"maximize"`` or ``"minimize"``.
    ``seed``
        The seed of every draw, but for the noise of releases that are charged to a budget.
    ``initial``
        Initial points of each party.
    ``noisy``
        True if values of one point differ: points may then be tried again.
    ``options``
        The keys of the algorithm's own table in a ``federation.toml``.
    ``tables``
        Further tables of that file, such as ``features``, ``privacy``, ``exploration``, ``topology``, ``surrogate``.

    Raises :class:`DefinitionError` if something cannot be used.

    >>> import fedbo
    >>> labs = fedbo.Federation("labs", {"x": fedbo.Float(0, 1)}, agents=["north", "south"], rounds=5, direction="maximize")
    >>> result = labs.simulate({"north": lambda p: -abs(p["x"] - 0.3), "south": lambda p: -abs(p["x"] - 0.4)})
    >>> len(result.rows)  # of each, 3 initial points and 5 queries
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
        options: Mapping[str, object] | None = None,
        **tables: Mapping[str, object],
    ) -> None:
        if isinstance(agents, str):
            raise TypeError(f"agents={agents!r} is one text; give the names of the parties as a list")
        written: dict[str, Mapping[str, object]] = {
            "federation": {
                "name": name,
                "direction": direction,
                "algorithm": algorithm,
                "rounds": rounds,
                "seed": seed,
                "initial": initial,
                "noisy": noisy,
            },
            "space": {key: _space.parameter(key, given)._keys() for key, given in space.items()},
        }
        if options:
            written[_fedbo.Federation.table_of(algorithm) or algorithm] = options
        for table, keys in tables.items():
            if table.replace("_", "-") in written:
                raise DefinitionError(f"{table}: the keys of this table are arguments of their own")
            written[table.replace("_", "-")] = keys
        roster = _space.inline([{"name": agent} for agent in agents])
        self._take(_fedbo.Federation.from_text(f"agents = {roster}\n{_space.toml(written)}"))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, seed: int | None = None) -> Federation:
        """Read a ``federation.toml``; ``seed`` replaces the file's.

        Its agents may have commands or built-in problems, which hold where a simulation is given no function.
        """
        return cls.__new__(cls)._take(_fedbo.Federation.from_file(Path(path), seed))

    def _take(self, native: _fedbo.Federation) -> Federation:
        self._native = native
        self._stop = threading.Event()
        return self

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def space(self) -> dict[str, Parameter]:
        """Its parameters, in their order."""
        return {name: _space.from_keys(keys) for name, keys in self._native.space.items()}

    @property
    def direction(self) -> Direction:
        """``"minimize"`` or ``"maximize"``."""
        return "minimize" if self._native.direction == "minimize" else "maximize"

    @property
    def algorithm(self) -> str:
        """The name of its algorithm."""
        return self._native.algorithm

    @property
    def agents(self) -> list[str]:
        """The parties' names, in their order."""
        return [name for name, _ in self._native.agents]

    @property
    def arms(self) -> list[str]:
        """The arms that a simulation can compare: the algorithm, and its controls."""
        return list(self._native.arms)

    @property
    def rounds(self) -> int:
        """Queries of each party after its initial points."""
        return self._native.rounds

    @property
    def seed(self) -> int:
        """The seed of every draw."""
        return self._native.seed

    def stop(self) -> None:
        """End a running :meth:`simulate` after the trials that are being evaluated; for callbacks."""
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

        An exception of a function is a failed trial, which is recorded and logged. Ctrl-C ends the simulation; with ``out``, what
        is finished is kept, and ``resume`` goes on from there.

        ``objectives``
            A function for each party, as in :meth:`Study.optimize`; parties without one keep what a file says.
        ``arms``
            The arms to run on the same seeds, of :attr:`arms`; the first is compared with the others. By default the algorithm, with
            ``n_runs`` also its controls.
        ``n_runs``
            Repeat all arms this often, each time with other draws, the same in every arm. By default one run from the seed itself.
        ``n_jobs``
            Trials and proposals at work at once; functions then run in threads, unless there is an ``executor``. By default 1: functions
            are called one after the other in this thread. Results do not depend on it where functions do not.
        ``executor``
            Anything with ``submit``, as in :meth:`Study.optimize`.
        ``failures_max``
            End after so many failures in a row of a party, 0 for never. By default after five before its first value.
        ``out``
            The results folder, with ``results.csv``, ``summary.json`` and pictures; by default none is kept. It is needed where
            releases are charged to a privacy budget: their ledger is kept there.
        ``resume``, ``overwrite``, ``spend_again``
            What becomes of results that stand there: as the options of ``fedbo run``.
        ``callbacks``
            Called with the federation and each trial; one may call :meth:`stop`.
        ``show_progress_bar``
            Show a bar of tqdm.

        Raises :class:`ObjectiveError` after too many failures, with the last exception as its cause.
        """
        objectives = _space.mapping("objectives", objectives, "a function for each party's name")
        missing = [name for name, has_own in self._native.agents if not has_own and name not in objectives]
        if missing:
            raise DefinitionError(f"no function is given for {', '.join(map(repr, missing))}: add one to objectives")
        if n_runs is not None:
            n_runs = _space.whole("n_runs", n_runs, 1)
        if isinstance(arms, str):
            arms = [arms]
        chosen = list(arms or self._native.default_arms(n_runs))
        jobs = n_jobs
        if jobs is None:
            jobs = n_workers(executor) if executor is not None else 1
        jobs = _space.whole("n_jobs", jobs, 1)
        if failures_max is not None:
            failures_max = _space.whole("failures_max", failures_max, 0)
        if out is None and self._native.is_charged and self._native.arms[0] in chosen:
            raise DefinitionError(
                f"the releases of arm {self._native.arms[0]} are charged to a privacy budget, and what was spent stays spent: name the "
                "folder that keeps its ledger by out=.., or try it out with privacy={.., 'simulate': True}, which protects nobody"
            )
        if resume and overwrite:
            raise DefinitionError("resume goes on with results and overwrite discards them: name one of both")
        if out is None and (resume or overwrite or spend_again):
            raise DefinitionError("resume, overwrite and spend_again are about results in a folder: name it by out=..")
        index = {name: place for place, name in enumerate(self.agents)}
        unknown = [name for name in objectives if name not in index]
        if unknown:
            raise DefinitionError(
                f"no agent is named {unknown[0]!r}; the federation's are {', '.join(map(repr, index))}"
            )
        for name, function in objectives.items():
            if not callable(function):
                raise TypeError(f"objectives[{name!r}] = {function!r} is no function")
        functions = {index[name]: function for name, function in objectives.items()}
        callbacks = tuple(callbacks)
        self._stop.clear()
        with contextlib.ExitStack() as stack:
            if out is not None:
                folder = Path(out)
            else:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedbo-")), "results")
            total = len(chosen) * (n_runs or 1) * len(index) * (self._native.initial + self.rounds)
            bar = stack.enter_context(_bar(total)) if show_progress_bar else None
            if executor is None and jobs > 1:
                threads = ThreadPoolExecutor(jobs, thread_name_prefix=f"fedbo-{self.name}")
                stack.callback(threads.shutdown, wait=True, cancel_futures=True)
                executor = threads
            evaluator = Evaluator(functions, executor)

            def on_told(wave: dict[str, Any]) -> bool:
                for fields in wave["rows"]:
                    trial = _trial(fields)
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
                    f"because {last} (failures_max=0 goes on whatever fails)"
                ) from evaluator.last_error
            svg = folder.joinpath("curves.svg").read_text(encoding="utf-8")
        document = json.loads(ended["summary"])
        return FederationResult(
            name=self.name,
            ended="complete" if ended["complete"] else "stopped",
            rows=tuple(_trial(fields) for fields in ended["rows"]),
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


def _trial(fields: dict[str, Any]) -> FederationTrial:
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
