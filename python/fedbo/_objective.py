"""Python functions as objectives: how they are called, and what of their ends is a value."""

from __future__ import annotations

import inspect
import logging
import math
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, CancelledError, Future
from typing import Any, Protocol, TypeAlias

from fedbo import _fedbo
from fedbo._space import plain, whole
from fedbo._trial import Trial

logger = logging.getLogger("fedbo")

Objective: TypeAlias = Callable[[dict[str, Any]], float] | Callable[[Trial], float]
"""A function of a dict of parameters; or of a :class:`Trial`, if its parameter is named ``trial`` or annotated so."""


class Executor(Protocol):
    """Whatever runs functions elsewhere: ``concurrent.futures``, Dask, submitit, loky, mpi4py."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Begin a call; the answer has ``add_done_callback`` and ``result``, or ``done`` and ``result``."""


def takes_trial(objective: Callable[..., Any]) -> bool:
    """True if a function is to be given a :class:`Trial` instead of a dict. Raises TypeError if it takes no single argument."""
    if not callable(objective):
        raise TypeError(f"{objective!r} is no function")
    try:
        signature = inspect.signature(objective)
    except (TypeError, ValueError):  # a builtin without a signature
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
    """What an objective returned as a float; NaN and infinities too, which are failures of their own. ``what`` begins the error."""
    given = plain(value)
    if given is None or isinstance(given, (bool, str, bytes)):
        raise TypeError(f"{what} {given!r}, which is not a number")
    try:
        return float(given)  # type: ignore[arg-type]
    except Exception:  # whatever a foreign type raises
        raise TypeError(f"{what} {type(given).__name__}, which is not a number") from None


def describe(error: BaseException) -> str:
    """An exception in one line."""
    try:
        text = str(error)
    except Exception:
        text = "its text cannot be shown"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _is_of_the_executor(error: Exception) -> bool:
    """True if a function was not evaluated at all: its executor is broken, or cannot send it."""
    if isinstance(error, (BrokenExecutor, CancelledError, pickle.PicklingError)):
        return True
    # Python 3.11 and 3.13 word it differently.
    wordings = ("pickle", "local object")
    return isinstance(error, (AttributeError, TypeError)) and any(wording in str(error) for wording in wordings)


class Evaluator:
    """Begins calls of the native module, here or by an executor, and ends them."""

    def __init__(
        self, objective: Callable[..., Any] | Mapping[int, Callable[..., Any]], executor: Executor | None
    ) -> None:
        """``objective`` is the function of every agent, or those of agents by their index."""
        functions = objective if isinstance(objective, Mapping) else {None: objective}
        self._objective = {agent: (function, takes_trial(function)) for agent, function in functions.items()}
        self._executor = executor
        self._open: set[Any] = set()
        self._lock = threading.Lock()
        self.last_error: BaseException | None = None
        self.broken: BaseException | None = None

    def __call__(self, call: _fedbo.Call) -> None:
        if self.broken is not None:
            raise self.broken
        function, wants_trial = self._objective.get(None) or self._objective[call.agent]
        stopped = threading.Event()

        def report(epoch: int, value: float) -> bool:
            if call.report(whole("epoch", epoch, 1), number(value, "the value reported is")):
                stopped.set()
            return stopped.is_set()

        argument: Any = dict(call.params)
        if wants_trial:
            argument = Trial(number=call.number, params=argument, _report=report)
        if self._executor is None:
            try:
                result = function(argument)
            except Exception as error:
                self._failed(call, stopped, error)
            else:
                self._returned(call, stopped, result)
            return
        future = self._executor.submit(function, argument)
        with self._lock:
            self._open.add(future)
        if hasattr(future, "add_done_callback"):
            future.add_done_callback(lambda done: self._done(call, stopped, done))
        else:
            wait = threading.Thread(target=self._done, args=(call, stopped, future), daemon=True)
            wait.start()

    def _done(self, call: _fedbo.Call, stopped: threading.Event, future: Future[Any]) -> None:
        try:
            try:
                result = future.result()
            except Exception as error:
                if _is_of_the_executor(error):
                    raise
                self._failed(call, stopped, error)
            else:
                self._returned(call, stopped, result)
        except BaseException as error:
            # No property of the point: the same would happen to every other.
            self.broken = error
            call.release()
        finally:
            with self._lock:
                self._open.discard(future)

    def _returned(self, call: _fedbo.Call, stopped: threading.Event, result: object) -> None:
        if stopped.is_set():
            call.stop()
            return
        try:
            value = number(result)
        except TypeError as error:
            self._failed(call, stopped, error)
        else:
            if not math.isfinite(value):
                self._log(call, ValueError(f"the objective returned {value}, which is not a finite number"))
            call.tell(value)

    def _failed(self, call: _fedbo.Call, stopped: threading.Event, error: Exception) -> None:
        if stopped.is_set():
            call.stop()
            return
        self._log(call, error)
        call.fail(describe(error))

    def _log(self, call: _fedbo.Call, error: Exception) -> None:
        self.last_error = error
        logger.warning("trial %d failed: %s", call.number, describe(error), exc_info=error)

    def cancel(self) -> None:
        """Cancel what was submitted and has not begun."""
        with self._lock:
            pending = list(self._open)
        for future in pending:
            cancel = getattr(future, "cancel", None)
            if cancel is not None:
                cancel()
