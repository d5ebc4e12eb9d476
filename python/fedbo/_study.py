"""Studies: ask for points, and tell their values."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedbo import _fedbo, _insight, _space, _trial
from fedbo._errors import DefinitionError, Error, ObjectiveError
from fedbo._executors import Executor, n_workers
from fedbo._insight import Insight
from fedbo._interrupt import resumable
from fedbo._objective import Evaluator, Objective, logger, number, told
from fedbo._plot import Plots
from fedbo._require import require
from fedbo._space import Choice, Mixture, Parameter, ParameterLike, Rule, Value
from fedbo._trial import Trial

if TYPE_CHECKING:
    import pandas as pd

Direction = Literal["minimize", "maximize"]
"""The direction in which values are better."""

Ended = Literal["complete", "exhausted", "stopped", "timeout", "patience"]
"""Reason why a run ended."""

ExportFormat = Literal["csv", "json", "tensorboard", "parquet"]
"""File format of an export."""

Callback = Callable[["Study", Trial], object]
"""A function that is called after every finished trial."""


@dataclass(frozen=True)
class RunReport:
    """Result of one call of :meth:`Study.optimize`."""

    told: int
    """Number of trials finished by this call, including failed ones."""
    failed: int
    """Number of failed trials among them."""
    stopped: int
    """Number of trials among them that were stopped early."""
    open: int
    """Number of trials that are evaluated elsewhere, or were asked for with :meth:`Study.ask` and not told yet."""
    ended: Ended
    """``complete``: the study has all its trials; ``exhausted``: every point was tried; ``stopped``: a callback or another process
    stopped the study; ``timeout``: the time limit was reached; ``patience``: there was no improvement for too long."""
    stopped_by: str | None = None
    """The command or process that stopped the study, for instance ``fedbo stop``."""


class Study:
    """A study of one party: a search space, a direction, a strategy, and the trials so far.

    Creates the study, or resumes it if ``storage`` already has a study of this name. In that case, all settings that influence the
    choice of trials must be unchanged. Equal definitions and values give equal trials, both here and in the program ``fedbo``. Any
    number of threads and processes may work on the same study.

    ``name``
        Name of the study, unique within its storage.
    ``space``
        Parameters by name: :class:`Float`, :class:`Int`, :class:`Categorical`, a list of choices, or a ``range``. Names may have inner
        blanks and units: ``"Temp (°C)"``.
    ``direction``
        ``"minimize"`` or ``"maximize"``, for a study with one objective.
    ``objectives``
        Two to four objectives by name with their directions, instead of ``direction``: ``{"error": "minimize", "size_mb": "minimize"}``.
    ``constraints``
        Bounds on additional outcomes, by name: ``{"latency_ms": {"at_most": 50.0}}``, or ``at_least``. With several objectives or with
        constraints, the objective function returns a dict with all outcomes; a single objective is named ``value``.
    ``rules``, ``mixtures``
        Linear rules between parameters (:class:`Rule`) and shares of a total (:class:`Mixture`), which every point satisfies.
    ``storage``
        ``"memory:"``, ``"sqlite:FILE"`` or ``"postgresql://USER@HOST/DATABASE"``.
    ``strategy``, ``strategy_options``
        The strategy, by its name in a ``study.toml`` (``log-ei`` by default), and its options there.
    ``seed``
        Seed of all random numbers.
    ``initial``
        Number of initial points from a Sobol sequence. Defaults to two per parameter, but at least 5 and at most 20.
    ``noisy``
        True if repeated evaluations of a point give different values. Points may then be tried again.
    ``old_studies``
        Studies to learn from: their storages, as in ``[meta] studies`` of a ``study.toml``, or a mapping with the keys of that table.
    ``archive``
        File with the releases of a federation, from which the study starts.
    ``early_stopping``
        Keys of the table ``[early_stopping]`` of a ``study.toml``. Trials that report intermediate values may then be stopped early.

    Raises :class:`DefinitionError` if an argument is invalid, and :class:`StorageError` if the storage fails.

    >>> study = fedbo.Study("parabola", {"x": fedbo.Float(-2.0, 2.0)}, direction="minimize")
    >>> report = study.optimize(lambda params: params["x"] ** 2, n_trials=15)
    >>> study.best_value < 0.05
    True
    """

    def __init__(
        self,
        name: str,
        space: Mapping[str, ParameterLike],
        *,
        direction: Direction | None = None,
        objectives: Mapping[str, Direction] | None = None,
        constraints: Mapping[str, Mapping[str, float]] | None = None,
        rules: Sequence[Rule] = (),
        mixtures: Sequence[Mixture] = (),
        storage: str | os.PathLike[str] = "memory:",
        strategy: str | None = None,
        strategy_options: Mapping[str, object] | None = None,
        seed: int = 0,
        initial: int | None = None,
        noisy: bool = False,
        old_studies: str | Sequence[str] | Mapping[str, object] | None = None,
        archive: str | os.PathLike[str] | None = None,
        early_stopping: Mapping[str, object] | None = None,
    ) -> None:
        space = _space.mapping("space", space, "parameters by their names")
        if not space:
            raise DefinitionError("space has no parameter; give it at least one, such as {'x': fedbo.Float(0.0, 1.0)}")
        parameters = {key: _space.parameter(key, given) for key, given in space.items()}
        texts = _space.Texts(parameters)
        tables: dict[str, Any] = _space.study_tables(
            name,
            parameters,
            direction=direction,
            storage=storage_address(storage),
            seed=seed,
            initial=initial,
            noisy=noisy,
        )
        if strategy is not None and not isinstance(strategy, str):
            raise TypeError(f"strategy = {strategy!r}, expected its name; options go into strategy_options={{...}}")
        if strategy_options is not None:
            strategy_options = _space.mapping("strategy_options", strategy_options, "options by their names")
        if strategy_options and "name" in strategy_options:
            raise DefinitionError("strategy_options has the key 'name', which is the argument strategy")
        if strategy is not None or strategy_options:
            tables["strategy"] = {"name": strategy, **(strategy_options or {})}
        if old_studies is not None:
            if isinstance(old_studies, str):
                old_studies = [old_studies]
            if not isinstance(old_studies, Mapping):
                old_studies = {"studies": list(old_studies)}
            tables["meta"] = old_studies
        if archive is not None:
            tables["archive"] = {"file": os.fspath(archive)}
        if early_stopping is not None:
            tables["early_stopping"] = _space.mapping("early_stopping", early_stopping, "keys of that table and their values")
        if objectives is not None:
            objectives = _space.mapping("objectives", objectives, "directions by the names of objectives")
            tables["objectives"] = [{"name": key, "direction": each} for key, each in objectives.items()]
        if constraints is not None:
            constraints = _space.mapping("constraints", constraints, "bounds by the names of numbers")
            for key, each in constraints.items():
                if isinstance(each, Mapping) and "name" in each:
                    raise TypeError(f"constraints[{key!r}] has a name, {each['name']!r}, beside its key; give only at_most or at_least")
            tables["constraints"] = [
                {**_space.mapping(f"constraints[{key!r}]", each, "at_most or at_least and its bound"), "name": key}
                for key, each in constraints.items()
            ]
        tables |= _space.rule_tables(rules, mixtures)
        native = _fedbo.Study.from_text(_label(name), _space.toml(tables))
        self._take(native, has_file=False, texts=texts)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Study:
        """Create or resume the study of a ``study.toml``. Its ``[objective]`` is ignored."""
        return cls.__new__(cls)._take(_fedbo.Study.from_file(Path(path)), has_file=True)

    @classmethod
    def load(cls, storage: str | os.PathLike[str], name: str | None = None) -> Study:
        """Open a stored study. ``name`` is needed only if the storage has several studies.

        Choices that are None or tuples are their texts in the opened study. To get them back, create it with its ``space`` again.
        """
        return cls.__new__(cls)._take(_fedbo.Study.load(
            _space.text("storage", storage_address(storage)), None if name is None else _space.text("name", name)
        ), has_file=False)

    @classmethod
    def _imported(
        cls, tables: Mapping[str, Mapping[str, object]], trials: list[tuple[dict[str, Value], list[float]]]
    ) -> Study:
        label = _label(str(tables["study"]["name"]))
        return cls.__new__(cls)._take(_fedbo.Study.import_trials(label, _space.toml(tables), trials), has_file=False)

    @classmethod
    def _reopened(cls, storage: str, name: str, texts: _space.Texts) -> Study:
        return cls.__new__(cls)._take(_fedbo.Study.load(storage, name), has_file=False, texts=texts)

    def _take(self, native: _fedbo.Study, *, has_file: bool, texts: _space.Texts | None = None) -> Study:
        self._native = native
        self._texts = texts or _space.Texts()
        self._has_file = has_file
        self._stop = threading.Event()
        self._evaluating: int | None = None
        self._known_identity: str | None = None
        kind, _, place = native.storage.partition(":")
        # An absolute path, because the process may change its working directory.
        self._address = f"{kind}:{Path(place).absolute()}" if kind == "sqlite" else native.storage
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.storage == "memory:":
            raise Error(
                f"study {self.name!r} is kept in this process's memory, which no other process can read; give it a storage, "
                "such as storage='sqlite:study.db'"
            )
        return (Study._reopened, (self._address, self.name, self._texts))

    @property
    def name(self) -> str:
        """Name of the study."""
        return self._native.name

    @property
    def direction(self) -> Direction:
        """``"minimize"`` or ``"maximize"``."""
        return "minimize" if self._native.direction == "minimize" else "maximize"

    @property
    def objectives(self) -> dict[str, Direction]:
        """Objectives with their directions, if there are several; otherwise empty."""
        named = self._native.objectives
        return {name: "minimize" if direction == "minimize" else "maximize" for name, direction in named}

    @property
    def constraints(self) -> dict[str, dict[str, float]]:
        """Constraints by name, each with its bound as ``at_most`` or ``at_least``."""
        bounds: dict[str, dict[str, float]] = {}
        for name, at_most, at_least in self._native.constraints:
            given = {"at_most": at_most, "at_least": at_least}
            bounds[name] = {key: bound for key, bound in given.items() if bound is not None}
        return bounds

    @property
    def space(self) -> dict[str, Parameter]:
        """Parameters by name, in their order."""
        return self._texts.space(self._native.space)

    @property
    def strategy(self) -> str:
        """Name of the strategy."""
        return self._native.strategy

    @property
    def seed(self) -> int:
        """Seed of all random numbers."""
        return self._native.seed

    @property
    def noisy(self) -> bool:
        """True if repeated evaluations of a point give different values. Points may then be tried again."""
        return self._native.noisy

    @property
    def storage(self) -> str:
        """Address of the storage, without its password."""
        return self._native.storage

    @property
    def trials(self) -> list[Trial]:
        """All trials in the order in which they were asked for."""
        return [self._trial(fields) for fields in self._native.trials()]

    @property
    def best_trial(self) -> Trial:
        """The best trial that satisfies all constraints, and of equal ones the earliest. Raises :class:`Error` if there is none yet.

        For several objectives use :attr:`best_trials`.
        """
        best = self._native.best()
        if best is None:
            what = "feasible trial" if self._native.constraints else "trial with a value"
            raise Error(f"study {self.name!r} has no {what} yet")
        return self._trial(best)

    @property
    def best_trials(self) -> list[Trial]:
        """The Pareto front: the feasible trials that no other trial dominates, ordered by number. With one objective, the best trial.

        A trial dominates another one if it is at least as good in all objectives and better in at least one.
        """
        return [self._trial(fields) for fields in self._native.best_trials()]

    @property
    def best_value(self) -> float:
        """The best value."""
        value = self.best_trial.value
        assert value is not None
        return value

    @property
    def best_params(self) -> dict[str, Any]:
        """The point of the best trial."""
        return dict(self.best_trial.params)

    def _trial(self, fields: dict[str, Any], report: Callable[[int, float], bool] | None = None) -> Trial:
        """Convert the native module's description of a trial."""
        return _trial.from_native({**fields, "params": self._texts.decode(fields["params"])}, report, self._identity())

    def _identity(self) -> str | None:
        """Return the id of the study, which is stored in its trials; ``None`` before the first trial of a stored study."""
        if self._known_identity is None:
            self._known_identity = self._native.identity()
        return self._known_identity

    def _number_of(self, trial: Trial | int) -> int:
        """Return the number of a trial of this study, given as a trial or as a number."""
        if not isinstance(trial, Trial):
            return _space.whole("trial", trial, 0)
        if trial._study is not None and trial._study != self._identity():
            raise DefinitionError(
                f"trial {trial.number} belongs to another study, not to {self.name!r} in {self.storage}; give it to the study that was "
                "asked for it"
            )
        return trial.number

    def ask(self, *, given: Mapping[str, Choice] | None = None) -> Trial:
        """Ask for the next trial: a waiting one, or a new proposal. The trial is reserved until it is told or released.

        With ``given``, the trial is a new proposal that has exactly these values of some parameters, such as a humidity that is
        observed and not chosen. The model chooses the other values. Raises :class:`DefinitionError` if a value is out of range, or
        the strategy of the study cannot propose trials with given values.
        """
        if given is None:
            fields = self._native.ask()
        else:
            given = _space.mapping("given", given, "values by the names of parameters")
            fields = self._native.ask(self._texts.encode(given))
        held = fields["number"]
        return self._trial(fields, lambda epoch, value: self.report(held, epoch, value))

    def tell(
        self, trial: Trial | int, value: float | Mapping[str, float | None] | None = None, *, failed: str | None = None
    ) -> None:
        """Tell the value of a trial, or the reason for its failure. The result is durable when this method returns.

        With constraints or several objectives, the value is a dict with all outcomes by name, None or NaN for an outcome that was not
        measured. Telling the same result again has no effect. Raises :class:`StorageError` if the trial already has a different result or is being evaluated elsewhere, and
        :class:`DefinitionError` if it belongs to another study.
        """
        if (value is None) == (failed is None):
            raise DefinitionError("tell either a value or failed='why'")
        if failed is not None:
            self._native.tell_failed(self._number_of(trial), failed)
        elif len(names := self._native.number_names) > 1:
            self._native.tell_numbers(self._number_of(trial), told(value, names, "the told result is"))
        else:
            self._native.tell(self._number_of(trial), number(value, "the value told is"))

    def correct(self, trial: Trial | int, value: float | Mapping[str, float | None]) -> None:
        """Replace the value of a trial that has ended, for instance after a typo. The earlier outcome stays on file.

        With constraints or several objectives, the value is a dict with all outcomes by name, as for :meth:`tell`. A failed or discarded trial gets a value.
        Raises :class:`StorageError` if the trial has not ended, and :class:`Error` if it was stopped early or retried.
        """
        names = self._native.number_names
        if len(names) > 1:
            given = told(value, names, "the corrected result is")
        else:
            given = [number(value, "the corrected value is")]
        self._native.correct(self._number_of(trial), given)

    def discard(self, trial: Trial | int) -> None:
        """Discard a trial that has ended. It then counts neither as a value nor as a failure.

        Its point may be proposed again, and one more trial takes its place in ``n_trials``. Its outcome stays on file, and
        :meth:`correct` gives the trial a value again. Raises :class:`StorageError` if the trial has not ended.
        """
        self._native.discard(self._number_of(trial))

    def report(self, trial: Trial | int, epoch: int, value: float) -> bool:
        """Report the value of a trial after an epoch of its training. Return True if the trial was stopped; it is then already told.

        Raises :class:`Error` if the study has no ``early_stopping``.
        """
        reported = number(value, "the value reported is")
        return self._native.report(self._number_of(trial), _space.epoch(epoch), reported) is not None

    def enqueue(self, params: Mapping[str, Choice]) -> Trial:
        """Add a point of your own to the queue. The next call of :meth:`ask` returns it."""
        params = _space.mapping("params", params, "values by the names of parameters")
        return self._trial(self._native.enqueue(self._texts.encode(params)))

    def release(self, trial: Trial | int) -> None:
        """Release a trial that was asked for. The next call of :meth:`ask` returns it."""
        self._native.release(self._number_of(trial))

    def retry(self, trial: Trial | int) -> Trial:
        """Enqueue the point of a failed trial again, as a new trial."""
        return self._trial(self._native.retry(self._number_of(trial)))

    def stop(self) -> None:
        """End a running :meth:`optimize` once the current trials have finished. For use in callbacks."""
        self._stop.set()

    def optimize(
        self,
        objective: Objective,
        n_trials: int | None = None,
        *,
        n_jobs: int | None = None,
        executor: Executor | None = None,
        timeout: float | None = None,
        patience: int | None = None,
        improvement_min: float = 0.0,
        failures_max: int | None = None,
        callbacks: Iterable[Callback] = (),
        show_progress_bar: bool = False,
    ) -> RunReport:
        """Evaluate a function until the study has ``n_trials`` trials, including those of earlier calls and other processes.

        If the function raises an exception, the trial fails: the failure is recorded and logged, but is not part of the model. Ctrl-C
        releases the running trial, and the next call, in this process or another, evaluates it. Functions on other threads cannot be
        interrupted; the call returns once they have finished.

        ``objective``
            A function of a dict of parameters, or of a :class:`Trial` if its parameter is named ``trial`` or annotated as such. With
            constraints or several objectives it returns a dict with all outcomes by name.
        ``n_trials``
            Total number of trials. Defaults to the number in the study's file.
        ``n_jobs``
            Number of concurrent trials, which run on Python threads unless there is an ``executor``. Defaults to 1, or to the number
            of workers that the executor reports.
        ``executor``
            Any object with a ``submit`` method: a process pool, Dask's ``client.get_executor()``, a
            :class:`fedbo.integrations.ray.RayExecutor`, a submitit executor. If the worker of a trial dies, the trial is evaluated again.
        ``timeout``
            Time in seconds after which no further trials start.
        ``patience``, ``improvement_min``
            End after ``patience`` consecutive trials without an improvement of the best value by more than ``improvement_min``. With
            several objectives, end after ``patience`` consecutive trials that are each dominated by an earlier one.
        ``failures_max``
            End after this many consecutive failures; 0 means never. By default, end after five failures before the first value.
        ``callbacks``
            Called with the study and each finished trial. A callback may call :meth:`stop`.
        ``show_progress_bar``
            Show a tqdm progress bar.

        Raises :class:`ObjectiveError` after too many failures. Its cause is the last exception.
        """
        total, jobs = self._n_trials(n_trials), n_jobs
        if jobs is None:
            jobs = n_workers(executor) if executor is not None else self._jobs()
        jobs = _space.whole("n_jobs", jobs, 1)
        if timeout is not None and not _space.real("timeout", timeout) > 0:
            raise DefinitionError(f"timeout = {timeout}, expected a number of seconds above 0, or None for no limit")
        if not 0 <= _space.real("improvement_min", improvement_min) < math.inf:
            raise DefinitionError(f"improvement_min = {improvement_min}, expected a number of at least 0")
        if patience is not None:
            patience = _space.whole("patience", patience, 0)
        if failures_max is not None:
            failures_max = _space.whole("failures_max", failures_max, 0)
        callbacks = tuple(callbacks)
        for function in (objective, *callbacks):
            if not callable(function):
                raise TypeError(f"{function!r} is not a function")
        if self._evaluating == threading.get_ident():
            raise Error(f"study {self.name!r} is evaluating this function, which cannot run the study itself")
        jobs = min(jobs, max(total, 1))
        self._stop.clear()
        with contextlib.ExitStack() as stack:
            stack.enter_context(resumable(self._how_to_resume()))
            bar = stack.enter_context(_bar(total, self)) if show_progress_bar else None
            if executor is None and jobs > 1:
                threads = ThreadPoolExecutor(jobs, thread_name_prefix=f"fedbo-{self.name}")
                stack.callback(threads.shutdown, wait=True, cancel_futures=True)
                executor = threads
            evaluator = Evaluator({0: objective}, executor, self._native.number_names, self._identity, self._texts)
            self._evaluating = threading.get_ident()
            stack.callback(setattr, self, "_evaluating", None)

            def on_told(fields: dict[str, Any]) -> bool:
                trial = self._trial(fields)
                if bar is not None:
                    bar.update()
                for callback in callbacks:
                    callback(self, trial)
                return self._stop.is_set()

            try:
                ended = self._native.run(
                    evaluator,
                    on_told,
                    logger.warning,
                    n_trials=total,
                    jobs=jobs,
                    timeout=timeout,
                    failures_max=failures_max,
                    patience=patience,
                    improvement_min=improvement_min,
                )
            except BaseException:
                evaluator.cancel()
                raise
        if evaluator.broken is not None:
            raise evaluator.broken
        if ended["ended"] == "failing":
            raise ObjectiveError(
                f"the run of study {self.name!r} ended because consecutive trials failed; the last error is the cause of "
                "this one (failures_max=0 continues despite failures)"
            ) from evaluator.last_error
        if self._stop.is_set() and ended["ended"] == "complete":
            ended["ended"] = "stopped"
        if ended["stopped_by"] is not None:
            logger.warning("study %r was stopped by %s; the next call continues", self.name, ended["stopped_by"])
        return RunReport(**ended)

    def _how_to_resume(self) -> str:
        if self.storage == "memory:":
            return (
                f"the finished trials of study {self.name!r} exist only in this process; call optimize again to continue, and give the "
                f"study a storage to keep them, such as storage='sqlite:{self.name}.db'"
            )
        return (
            f"the finished trials of study {self.name!r} are in {self.storage}; run the same script again, or call optimize again, to "
            "continue from there"
        )

    def _n_trials(self, given: int | None) -> int:
        if given is not None:
            return _space.whole("n_trials", given, 0)
        options = self._native.run_options
        if not self._has_file or options is None:
            raise DefinitionError("n_trials is missing: the total number of trials of the study")
        return int(options[0])

    def _jobs(self) -> int:
        options = self._native.run_options
        return int(options[1]) if self._has_file and options is not None else 1

    def trials_dataframe(self) -> pd.DataFrame:
        """Return the trials as a pandas DataFrame with one row per trial.

        Parameters are in columns ``params_NAME``, outcomes other than ``value`` in columns ``outcomes_NAME``.

        The values are those of ``fedbo trials``: a trial that was stopped early has its last reported value. If trials have several
        outcomes, the column ``feasible`` is True for trials that satisfy all constraints.
        """
        names = self._native.number_names
        before = ("number", "value", "state", "source") + (("feasible",) if len(names) > 1 else ())
        after = ("asked_at", "told_at", "seconds", "message")
        outcomes = [name for name in names if name != "value"]
        trials = [trial if trial.state != "stopped" else replace(trial, value=trial.reports[-1][1]) for trial in self.trials]
        return _trial.dataframe(trials, before, self._native.space, after, outcomes)

    def insight(self, objective: str | None = None) -> Insight:
        """Fit a model to all trials. Return the importance of the parameters and the best trial by the model mean.

        With several objectives, ``objective`` is the name of one of them, and constraints are ignored. Raises :class:`Error` if there
        are fewer than two values.
        """
        names = [name for name, _ in self._native.objectives]
        if objective is None and names:
            raise DefinitionError(f"which objective? study {self.name!r} has {', '.join(names)}: insight({names[0]!r})")
        if objective is not None and objective not in names:
            known = ", ".join(names) or "a single objective, which needs no name"
            raise DefinitionError(f"study {self.name!r} has no objective {objective!r}; it has {known}")
        found = self._native.insight(0 if objective is None else names.index(objective))
        if found is None:
            raise Error(f"study {self.name!r} has fewer than two values, too few to fit a model")
        return _insight.from_native(found, lambda fields: _trial.from_native({**fields, "params": self._texts.decode(fields["params"])}))

    @property
    def plot(self) -> Plots:
        """Pictures of the study: ``study.plot.history()``, ``slices()``, ``importance()``, ``learning_curves()``, ``transfer()``;
        with several objectives ``pareto()``."""
        return Plots(self)

    def export(self, path: str | os.PathLike[str], format: ExportFormat | None = None) -> list[Path]:
        """Write all trials to a file, atomically. Return the paths of the written files.

        ``format``
            ``"csv"`` and ``"json"``: as written by ``fedbo export``; ``"tensorboard"``: event files in the folder ``path``;
            ``"parquet"``: :meth:`trials_dataframe`, written by pandas, which needs pyarrow. Defaults to the file's extension.
        """
        path = Path(path)
        if format is None:
            endings: dict[str, ExportFormat] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}
            format = endings.get(path.suffix.lower())
        if format not in ("csv", "json", "tensorboard", "parquet"):
            raise DefinitionError(
                f"{path}: unknown format; use the extension .csv, .json or .parquet, or format='csv', 'json', 'parquet' "
                "or, for a folder of event files, 'tensorboard'"
            )
        if format == "parquet":
            return self._to_parquet(path)
        return [Path(each) for each in self._native.export(path, format)]

    def _to_parquet(self, path: Path) -> list[Path]:
        require("pandas", "pandas", "the form parquet")
        require("pyarrow", "pyarrow", "the form parquet")
        part = path.with_name(path.name + ".part")
        try:
            self.trials_dataframe().to_parquet(part, index=False)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
        return [path]

    def __repr__(self) -> str:
        return (
            f"<Study {self.name!r}: {self.direction} over {', '.join(self._native.space)}, by {self.strategy}, "
            f"in {self.storage}>"
        )

    def _repr_html_(self) -> str:
        trials = self.trials
        told = [trial for trial in trials if trial.value is not None]
        rows = [("trials", str(len(trials))), ("strategy", self.strategy), ("storage", self.storage)]
        front = self.best_trials
        if self.objectives:
            rows.append(("front", f"{len(front)} trials"))
        elif told and front:
            best = front[0]
            rows.append(("best", f"{best.value:.6g} (trial {best.number})"))
            rows += [(name, str(value)) for name, value in best.params.items()]
        cells = (f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in rows)
        measured = [trial for trial in told if not any(math.isnan(trial.outcomes.get(key, 0.0)) for key in self.objectives)]
        ended = bool(measured) or any(trial.state == "failed" for trial in trials)
        picture = ""
        if ended:
            drawn = self.plot.pareto() if self.objectives else self.plot.history()
            picture = f"<div>{drawn.svg}</div>"
        return f"<h4>Study {escape(self.name)}</h4><table>{''.join(cells)}</table>{picture}"


def _label(name: str) -> Path:
    """Return the label of the definition in error messages."""
    return Path(f"Study({name!r})".replace("/", "_"))


def storage_address(storage: str | os.PathLike[str]) -> str:
    """Convert a path to the address of a SQLite storage; return an address unchanged."""
    if isinstance(storage, os.PathLike):
        return f"sqlite:{os.fspath(storage)}"
    return storage


def _bar(total: int, study: Study) -> Any:
    from tqdm.auto import tqdm

    ended = sum(trial.state in ("complete", "failed", "stopped") for trial in study.trials)
    return tqdm(total=total, initial=min(ended, total), unit="trial")
