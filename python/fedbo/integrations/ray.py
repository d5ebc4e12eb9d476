"""fedbo and Ray: a searcher for Ray Tune and an executor for studies.

    from ray import tune
    from fedbo.integrations.ray import FedboSearch

    tuner = tune.Tuner(
        lambda config: {"loss": (config["x"] - 0.3) ** 2},
        param_space={"x": tune.uniform(-2, 2)},
        tune_config=tune.TuneConfig(search_alg=FedboSearch(seed=0), metric="loss", mode="min", num_samples=20),
    )
    print(tuner.fit().get_best_result().config)

:class:`RayExecutor` evaluates the trials of a study as Ray tasks, without Tune.
"""

# Ray is too large to install for a type check. Without it, `import ray` resolves to this file.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from fedbo.integrations import missing

try:
    import ray
    from ray.tune.search import Searcher
except ModuleNotFoundError as error:
    if error.name not in ("ray", "ray.tune", "pyarrow", "pandas"):
        raise
    raise missing("ray[tune]", "ray") from error

from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError
from ray.tune.search import sample as tune_sample
from ray.tune.search.variant_generator import parse_spec_vars
from ray.tune.utils.util import flatten_dict, unflatten_dict

from fedbo import _space
from fedbo._errors import DefinitionError
from fedbo._executors import WorkerDied
from fedbo._space import Categorical, Float, Int, Parameter
from fedbo.integrations._queries import Code, Ended, Queries, choices, new_seed

__all__ = ["FedboSearch", "RayExecutor"]

SEPARATOR = "/"
"""Separator of keys in a nested space, as in Tune's names of parameters."""

DIED = (NodeDiedError, OutOfMemoryError, WorkerCrashedError)
"""Errors of a task whose worker died."""


class FedboSearch(Searcher):
    """A searcher for one metric that proposes configurations with a fedbo strategy.

    Running trials are taken into account as open points. A trial that ends without a finite value of the metric has failed. A trial
    that a scheduler stopped has its last reported value. Tune saves the searcher with the experiment; :meth:`save` and
    :meth:`restore` do this manually.

    ``space``
        Parameters of fedbo or domains of Tune by name, possibly nested. Defaults to the ``param_space`` of the tuner. Constants are
        passed to each trial.
    ``metric``, ``mode``
        The metric, and ``"min"`` or ``"max"``. Both are required with a ``space``, because Tune then does not pass them to the
        searcher.
    ``points_to_evaluate``
        Configurations to try first. Each has a value for every parameter; constants may be omitted.
    ``strategy``, ``strategy_options``
        The strategy, by its name in a ``study.toml``, and its options there.
    ``n_startup_trials``
        Number of initial points from a Sobol sequence. Defaults to two per parameter, but at least 5 and at most 20.
    ``seed``
        Seed of all random numbers: equal seeds, and equal trials that end in the same order, give equal configurations.
    ``noisy``
        True if repeated evaluations of a point give different values. Points may then be tried again. If False, the search ends when
        all points were tried.
    """

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        points_to_evaluate: Sequence[Mapping[str, Any]] | None = None,
        strategy: str | None = "log-ei",
        strategy_options: Mapping[str, object] | None = None,
        n_startup_trials: int | None = None,
        seed: int | None = None,
        noisy: bool = False,
    ) -> None:
        for what, given in (("metric", metric), ("mode", mode)):
            if isinstance(given, (list, tuple)):
                raise DefinitionError(f"FedboSearch works on one metric, got {what}={given!r}")
        if mode not in (None, "min", "max"):
            raise DefinitionError(f'mode={mode!r}, expected "min" or "max"')
        if space is not None and (metric is None or mode is None):
            raise DefinitionError(
                "FedboSearch with its own space also needs metric= and mode=: Tune does not pass them to such a searcher"
            )
        self._metric: str | None
        self._mode: str | None
        super().__init__(metric=metric, mode=mode)
        self._options: dict[str, Any] = {
            "strategy": strategy,
            "strategy_options": dict(strategy_options or {}),
            "seed": new_seed() if seed is None else seed,
            "initial": n_startup_trials,
            "noisy": noisy,
        }
        self._points = [dict(point) for point in points_to_evaluate or ()]
        self._queries: Queries | None = None
        self._waiting: list[Code] = []
        self._told: list[Ended] = []
        self._open: dict[str, tuple[Code, str]] = {}
        if space is not None:
            self._begin(space)

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Set the space, metric and mode of the tuner. Return False if the searcher already has a space."""
        if self._queries is not None:
            return False
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if isinstance(self._metric, (list, tuple)) or isinstance(self._mode, (list, tuple)):
            raise DefinitionError(f"FedboSearch works on one metric, got {self._metric!r}")
        if self._metric is None or self._mode is None:
            raise DefinitionError("FedboSearch needs metric= and mode=: of the searcher, or of tune.TuneConfig")
        self._begin(config)
        return True

    def _begin(self, space: Mapping[str, Any]) -> None:
        self._queries = Queries(
            "FedboSearch",
            _parameters(space),
            direction="minimize" if self._mode == "min" else "maximize",
            **self._options,
        )
        for point in self._points:
            self._waiting.append(self._encode(self._queries, point))

    @staticmethod
    def _encode(queries: Queries, point: Mapping[str, Any]) -> Code:
        code = queries.encode(flatten_dict(dict(point), delimiter=SEPARATOR))
        if code is None:
            raise DefinitionError(
                f"{dict(point)} is not a point of the search space: it needs a value inside of its range for each parameter"
            )
        return code

    def _begun(self) -> Queries:
        if self._queries is None:
            raise DefinitionError(
                "FedboSearch has no search space: give it one, or give param_space to tune.Tuner"
            )
        return self._queries

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Propose the configuration of a trial. Repeated calls for the same trial return the same one."""
        queries = self._begun()
        if trial_id not in self._open:
            points = [code for code, _ in self._open.values()]
            if self._waiting:
                proposed: tuple[Code, str] | None = (self._waiting.pop(0), "enqueued")
            else:
                proposed = queries.propose(self._told, points, len(self._told) + len(points))
            if proposed is None:
                finished: dict[str, Any] = Searcher.FINISHED
                return finished
            self._open[trial_id] = proposed
        code, _ = self._open[trial_id]
        config: dict[str, Any] = unflatten_dict(queries.decode(code), delimiter=SEPARATOR)
        return config

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Record the end of a trial. Repeated calls for the same trial have no effect."""
        held = self._open.pop(trial_id, None)
        if held is None:
            return
        code, source = held
        value = _space.plain((result or {}).get(str(self._metric)))
        is_value = isinstance(value, (int, float)) and math.isfinite(value) and not error
        self._told.append((code, float(value) if is_value else None, source))

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Add a configuration that was evaluated elsewhere."""
        code = self._encode(self._begun(), parameters)
        is_value = not error and value is not None and math.isfinite(value)
        self._told.append((code, float(value) if is_value else None, "enqueued"))

    def save(self, checkpoint_path: str) -> None:
        """Write the state of the searcher to a file."""
        whole = checkpoint_path + ".part"
        with open(whole, "wb") as file:
            pickle.dump(self._state(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(whole, checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Restore the state from a file written by :meth:`save`. The file is a pickle and must come from a trusted source."""
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))

    def _state(self) -> dict[str, Any]:
        names = ("_metric", "_mode", "_options", "_points", "_queries", "_waiting", "_told", "_open")
        return {name: self.__dict__[name] for name in names}


def _parameters(space: Mapping[str, Any]) -> dict[str, Parameter]:
    """Convert the parameters of a space of fedbo or Tune. Constants become single choices."""
    _, _, grids = parse_spec_vars(dict(space))
    if grids:
        names = ", ".join(SEPARATOR.join(map(str, path)) for path, _ in grids)
        raise DefinitionError(f"{names}: a grid search is not a range; use tune.choice")
    flat = flatten_dict(dict(space), delimiter=SEPARATOR, prevent_delimiter=True)
    parameters = {name: _parameter(name, given) for name, given in flat.items()}
    if all(isinstance(each, Categorical) and len(each.choices) == 1 for each in parameters.values()):
        raise DefinitionError(f"the search space has no parameter: {dict(space)}")
    return parameters


def _parameter(name: str, given: object) -> Parameter:
    if isinstance(given, (Float, Int, Categorical)):
        return given
    if isinstance(given, tune_sample.Domain):
        return _of_domain(name, given)
    return choices((given,))


def _of_domain(name: str, domain: Any) -> Parameter:
    if isinstance(domain, tune_sample.Categorical):
        return choices(domain.categories)
    sampler, step = domain.get_sampler(), None
    if isinstance(sampler, tune_sample.Quantized):
        sampler, step = sampler.get_sampler(), sampler.q
    is_log = isinstance(sampler, tune_sample.LogUniform)
    if not is_log and not isinstance(sampler, tune_sample.Uniform):
        raise DefinitionError(
            f"parameter {name!r}: {type(domain).__name__} with {type(sampler).__name__} has no bounds; give it some, as by "
            "tune.uniform"
        )
    is_int = isinstance(domain, tune_sample.Integer)
    if not is_int and not isinstance(domain, tune_sample.Float):
        raise DefinitionError(f"parameter {name!r}: {type(domain).__name__} is not a domain that can be searched")
    if step is not None and not (is_int and step == 1):
        if is_log:
            raise DefinitionError(
                f"parameter {name!r}: a range has either a step or a logarithmic scale; leave out the quantization and round in "
                "the function"
            )
        # Multiples of the step within the bounds, both inclusive.
        first, last = math.ceil(domain.lower / step - 1e-9), math.floor(domain.upper / step + 1e-9)
        if first > last:
            raise DefinitionError(f"parameter {name!r}: no multiple of {step} lies from {domain.lower} to {domain.upper}")
        if is_int:
            return Int(int(first * step), int(last * step), step=int(step))
        return Float(first * step, last * step, step=step)
    if is_int:
        return Int(int(domain.lower), int(domain.upper) - 1, log=is_log)  # the upper bound is exclusive
    return Float(float(domain.lower), float(domain.upper), log=is_log)


class RayExecutor:
    """An executor for :meth:`fedbo.Study.optimize` that runs calls as Ray tasks.

    If the worker of a trial dies or is killed because memory runs out, the study evaluates the trial again, up to three times. After
    that, the trial fails. With ``max_retries``, Ray retries it instead, without a limit if memory runs out. Unless ``n_jobs`` is given,
    as many trials run concurrently as the cluster has resources for.

    ``options``
        Options of a task, as in ``ray.remote(**options)``: ``num_cpus``, ``num_gpus``, ``resources``, ``max_retries``,
        ``runtime_env``, ``scheduling_strategy``, ...
    """

    def __init__(self, **options: Any) -> None:
        if not ray.is_initialized():
            ray.init()
        # The function is pickled by value, so that workers do not need fedbo.
        task = ray.remote(lambda function, *arguments: function(*arguments))
        self._task = task.options(**{"max_retries": 0, **options})
        self._options = options
        self._sent: tuple[Callable[..., Any], Any] | None = None

    @property
    def _max_workers(self) -> int:
        """Number of tasks for which the cluster has resources."""
        needs = {"CPU": self._options.get("num_cpus", 1), "GPU": self._options.get("num_gpus")}
        needs |= self._options.get("resources") or {}
        has = ray.cluster_resources()
        return max(1, min((int(has.get(name, 0) // need) for name, need in needs.items() if need), default=1))

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Start a call. Cancelling the returned future cancels the task."""
        if self._sent is None or self._sent[0] is not function:
            self._sent = (function, ray.put(function))  # stored once for all trials
        task = self._task.remote(self._sent[1], *arguments)
        future: Future[Any] = Future()

        def done(ended: Future[Any]) -> None:
            if not future.set_running_or_notify_cancel():
                return
            error = ended.exception()
            if isinstance(error, DIED) and "max_retries" not in self._options:
                died = WorkerDied()
                died.__cause__, error = error, died
            if error is None:
                future.set_result(ended.result())
            else:
                future.set_exception(error)

        future.add_done_callback(lambda given: ray.cancel(task) if given.cancelled() else None)
        task.future().add_done_callback(done)
        return future
