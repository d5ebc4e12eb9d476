"""Python functions as objectives: calls the functions and interprets their results."""

from __future__ import annotations

import inspect
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from fedbo import _executors, _fedbo
from fedbo._executors import ATTEMPTS_MAX, Ending, Executor, describe, loggable
from fedbo._space import Texts
from fedbo._space import epoch as checked_epoch
from fedbo._space import plain
from fedbo._trial import Trial

logger = logging.getLogger("fedbo")

Objective: TypeAlias = (
    Callable[[dict[str, Any]], float]
    | Callable[[Trial], float]
    | Callable[[dict[str, Any]], Mapping[str, float]]
    | Callable[[Trial], Mapping[str, float]]
)
"""A function of a dict of parameters, or of a :class:`Trial` if its parameter is named ``trial`` or annotated as such. With constraints
or several objectives it returns a dict with all outcomes by name."""


def takes_trial(objective: Callable[..., Any]) -> bool:
    """Return True if the function takes a :class:`Trial` instead of a dict. Raise TypeError if it does not take a single argument."""
    if not callable(objective):
        raise TypeError(f"{objective!r} is not a function")
    try:
        signature = inspect.signature(objective)
    except (TypeError, ValueError):  # a builtin function without a signature
        return False
    try:
        signature.bind({})
    except TypeError as error:
        name = getattr(objective, "__name__", repr(objective))
        raise TypeError(
            f"{name}{signature} cannot be called with one argument, a dict of parameters ({error}); for a function of parameters by "
            f"their names, give lambda params: {name}(**params)"
        ) from None
    first = next(iter(signature.parameters.values()))
    return first.name == "trial" or first.annotation in (Trial, "Trial", "fedbo.Trial")


def number(value: object, what: str = "the objective returned") -> float:
    """Convert a return value to a float. NaN and infinity pass, to be recorded as failures. ``what`` starts the error message."""
    try:
        given = plain(value)
    except Exception:  # foreign types may raise anything
        raise TypeError(f"{what} {type(value).__name__}, which is not a number") from None
    if given is None or isinstance(given, (bool, str, bytes)):
        raise TypeError(f"{what} {given!r}, which is not a number")
    try:
        return float(given)
    except OverflowError:
        raise TypeError(f"{what} a whole number that is too large for a floating-point number") from None
    except Exception:  # foreign types may raise anything
        raise TypeError(f"{what} {type(given).__name__}, which is not a number") from None


def numbers(given: object, names: Sequence[str], what: str = "the objective returned") -> list[float | None]:
    """Convert a dict with exactly these names to a list in the order of the names. ``what`` starts the error message.

    None marks an outcome that was not measured."""
    expected = f"a dict with {', '.join(names)}"
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} {given!r}, expected {expected}")
    for name in given:
        if name not in names:
            raise TypeError(f"{what} a dict with {name!r}, which is not a number of this study; expected {expected}")
    for name in names:
        if name not in given:
            raise TypeError(f"{what} a dict without {name!r} (give None if it was not measured); expected {expected}")
    return [None if given[name] is None else number(given[name], f"{what} {name!r} =") for name in names]


def told(given: object, names: Sequence[str], what: str) -> list[float]:
    """Same as :func:`numbers`, for outcomes that a person tells. NaN and None stand for an outcome that was not measured."""
    return [math.nan if each is None else each for each in numbers(given, names, what)]


@dataclass(frozen=True)
class _Evaluation:
    """A trial submitted to an executor."""

    call: _fedbo.Call
    stopped: threading.Event
    """Set once the trial's reports have stopped it."""
    function: Callable[..., Any]
    argument: Any
    attempt: int = 1
    """Number of this evaluation of the trial, starting at 1."""


class Evaluator:
    """Evaluates the calls of the native module on this thread or on an executor."""

    def __init__(
        self,
        objective: Callable[..., Any] | Mapping[int, Callable[..., Any]],
        executor: Executor | None,
        names: Sequence[str] = ("value",),
        identity: Callable[[], str | None] = lambda: None,
        texts: Texts | None = None,
    ) -> None:
        """``objective`` is the function of all agents, or a mapping from an agent's index to its function. ``names`` are the names of a
        trial's outcomes. ``identity`` returns the id of the study, which is stored in trials. ``texts`` are the choices that the
        native module stores as texts."""
        self._names = names
        self._texts = texts or Texts()
        self._identity = identity
        functions = objective if isinstance(objective, Mapping) else {None: objective}
        self._objective = {agent: (function, takes_trial(function)) for agent, function in functions.items()}
        self._executor = executor
        self._open: set[Any] = set()
        self._lock = threading.Lock()
        self._submitting = threading.Lock()
        self._over = threading.Event()
        self.last_error: BaseException | None = None
        self.broken: BaseException | None = None

    def __call__(self, call: _fedbo.Call) -> None:
        if self.broken is not None:
            raise self.broken
        function, wants_trial = self._objective.get(None) or self._objective[call.agent]
        stopped = threading.Event()

        def report(epoch: int, value: float) -> bool:
            if call.report(checked_epoch(epoch), number(value, "the value reported is")):
                stopped.set()
            return stopped.is_set()

        argument: Any = self._texts.decode(call.params)
        if wants_trial:
            argument = Trial(number=call.number, params=argument, _study=self._identity(), _report=report)
        if self._executor is None:
            try:
                result = function(argument)
            except Exception as error:
                self._failed(call, stopped, error)
            else:
                self._returned(call, stopped, result)
            return
        self._submit(self._executor, _Evaluation(call, stopped, function, argument))

    def _submit(self, executor: Executor, evaluation: _Evaluation) -> None:
        with self._submitting:  # the run and retries of trials may submit concurrently
            future = _executors.submit(executor, evaluation.function, evaluation.argument)
        with self._lock:
            self._open.add(future)
            is_over = self._over.is_set()
        if is_over:
            _cancel(future)
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(lambda done: self._done(executor, evaluation, done))
        else:
            name, arguments = f"fedbo-trial-{evaluation.call.number}", (executor, evaluation, future)
            threading.Thread(target=self._done, args=arguments, name=name, daemon=True).start()

    def _done(self, executor: Executor, evaluation: _Evaluation, future: Any) -> None:
        call, stopped = evaluation.call, evaluation.stopped
        try:
            try:
                result = _executors.result(future, self._over)
            except Exception as error:
                match _executors.ending(error):
                    case Ending.BROKEN:
                        raise
                    case Ending.DIED_ONCE if evaluation.attempt < ATTEMPTS_MAX and not stopped.is_set():
                        self._again(executor, evaluation, error)
                    case Ending.DIED | Ending.DIED_ONCE:
                        times = f" {evaluation.attempt} times" if evaluation.attempt > 1 else ""
                        died = f"its worker died{times} while evaluating it ({describe(error)})"
                        self._failed(call, stopped, error, died)
                    case Ending.RAISED:
                        self._failed(call, stopped, error)
            else:
                self._returned(call, stopped, result)
        except BaseException as error:
            self._break(call, error)
        finally:
            with self._lock:
                self._open.discard(future)

    def _again(self, executor: Executor, evaluation: _Evaluation, error: Exception) -> None:
        """Submit a trial again, or release it if the run is over."""
        if self.broken is not None or self._over.is_set():
            evaluation.call.release()
            return
        number, attempt = evaluation.call.number, evaluation.attempt + 1
        logger.warning(
            "trial %d is evaluated again (%d of %d times), as its worker died: %s", number, attempt, ATTEMPTS_MAX, describe(error)
        )

        def submit() -> None:
            try:
                self._submit(executor, replace(evaluation, attempt=attempt))
            except BaseException as error:
                self._break(evaluation.call, error)

        # Submit on a separate thread, because the engine may need this thread to complete the submission.
        threading.Thread(target=submit, name=f"fedbo-trial-{number}", daemon=True).start()

    def _break(self, call: _fedbo.Call, error: BaseException) -> None:
        """End the run after an error that does not depend on the point, because it would recur for every other point."""
        self.broken = self.broken or error
        call.release()

    def _returned(self, call: _fedbo.Call, stopped: threading.Event, result: object) -> None:
        if stopped.is_set():
            call.stop()
            return
        try:
            values = numbers(result, self._names) if len(self._names) > 1 else [number(result)]
            if all(value is None for value in values):
                raise TypeError(f"the objective returned None for all of {', '.join(self._names)}")
        except Exception as error:  # for instance from a property of the returned object
            self._failed(call, stopped, error)
            return
        for name, value in zip(self._names, values, strict=True):
            if value is not None and not math.isfinite(value):
                which = f"{name!r} = " if len(values) > 1 else ""
                not_finite = ValueError(f"the objective returned {which}{value}, which is not a finite number")
                if len(values) > 1:
                    self._fail(call, not_finite, describe(not_finite))
                    return
                self.last_error = not_finite
                call.tell(value)  # NaN and infinity are recorded as a separate kind of failure
                self._log(call, not_finite, describe(not_finite))
                return
        if len(values) > 1:
            call.tell_numbers(values)
        elif values[0] is not None:
            call.tell(values[0])

    def _failed(
        self, call: _fedbo.Call, stopped: threading.Event, error: Exception, message: str | None = None
    ) -> None:
        if stopped.is_set():
            call.stop()
            return
        error = _executors.raised(error)
        message = message or describe(error)
        self._fail(call, error, message)

    def _fail(self, call: _fedbo.Call, error: Exception, message: str) -> None:
        self.last_error = error
        # End the call before logging: a user's log handler may raise, and the trial must not wait forever.
        call.fail(message)
        self._log(call, error, message)

    def _log(self, call: _fedbo.Call, error: Exception, message: str) -> None:
        logger.warning("trial %d failed: %s", call.number, message, exc_info=loggable(error))

    def cancel(self) -> None:
        """Cancel submitted calls that have not started. Nothing is evaluated again afterwards."""
        with self._lock:
            self._over.set()
            pending = list(self._open)
        for future in pending:
            _cancel(future)


def _cancel(future: Any) -> None:
    cancel = getattr(future, "cancel", None)
    if cancel is not None:
        try:
            cancel()
        except Exception as error:  # for instance from Slurm's scancel; it must not hide the error that ended the run
            logger.warning("a call could not be cancelled: %s", describe(error))
