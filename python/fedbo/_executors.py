"""Executors: submit calls to process pools, Dask, Ray and submitit, and interpret their errors."""

from __future__ import annotations

import enum
import pickle
import re
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from typing import Any, Protocol

from fedbo._errors import Error
from fedbo._space import printable

ATTEMPTS_MAX = 4
"""Maximum number of evaluations of a trial whose worker dies each time. Dask and Ray have the same default."""


class Executor(Protocol):
    """An object that runs functions elsewhere: from ``concurrent.futures``, Dask, Ray, submitit, loky or mpi4py."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start a call. The returned object has ``add_done_callback`` and ``result``, or ``done`` and ``result``."""


class WorkerDied(Exception):
    """The worker of a call died, and the study must retry the call because the executor does not. The cause is the engine's error."""


class Ending(enum.Enum):
    """Consequence of an evaluation error for its trial."""

    RAISED = enum.auto()
    """The function raised an exception. The trial fails."""
    DIED = enum.auto()
    """The worker died, and the engine has exhausted its own retries. The trial fails."""
    DIED_ONCE = enum.auto()
    """The worker died, and the engine does not retry. The trial is evaluated again."""
    BROKEN = enum.auto()
    """The executor cannot evaluate any point. The run ends."""


# Exception classes are given by name, because their packages are not imported here.
_DIED = {
    "distributed": {"KilledWorker"},
    "ray": {"NodeDiedError", "OutOfMemoryError", "RayActorError", "WorkerCrashedError"},
}
_DIED_ONCE = {"submitit": {"UncompletedJobError"}}
_FAILED = {"submitit": {"FailedJobError"}}  # a subclass of UncompletedJobError
_BROKEN = {
    "distributed": {"NoWorkerError", "NoValidWorkerError"},
    "ray": {
        "AuthenticationError",
        "LocalRayletDiedError",
        "RaySystemError",
        "RuntimeEnvSetupError",
        "TaskCancelledError",
        "TaskPlacementGroupRemoved",
        "TaskUnschedulableError",
    },
}


def _is_of(given: object, classes: dict[str, set[str]]) -> bool:
    pairs = ((base.__module__.partition(".")[0], base.__name__) for base in type(given).__mro__)
    return any(name in classes.get(package, ()) for package, name in pairs)


def ending(error: Exception) -> Ending:
    """Classify an error raised by the future of a call."""
    if isinstance(error, WorkerDied) or _is_of(error, _DIED_ONCE):
        # In submitit, FailedJobError means that the job has a result, which is the exception of the function.
        return Ending.RAISED if _is_of(error, _FAILED) else Ending.DIED_ONCE
    error = raised(error)
    if isinstance(error, (BrokenExecutor, CancelledError, pickle.PicklingError)) or _is_of(error, _BROKEN):
        return Ending.BROKEN
    # The wording differs between Python 3.11 and 3.13.
    wordings = ("pickle", "local object")
    if isinstance(error, (AttributeError, TypeError)) and any(wording in _words(error) for wording in wordings):
        return Ending.BROKEN
    return Ending.DIED if _is_of(error, _DIED) else Ending.RAISED


def raised(error: Exception) -> Exception:
    """Unwrap the original exception. Ray wraps it in an exception with a coloured traceback as its text."""
    if isinstance(error, WorkerDied) and isinstance(error.__cause__, Exception):
        return error.__cause__
    cause = getattr(error, "cause", None) if _is_of(error, {"ray": {"RayTaskError"}}) else None
    return cause if isinstance(cause, Exception) else error


def _words(error: BaseException) -> str:
    """Return the text of an exception, whose ``__str__`` may raise."""
    try:
        return printable(str(error))
    except Exception:
        return "its text cannot be shown"


def describe(error: BaseException) -> str:
    """Describe an exception in one line."""
    if isinstance(error, Exception):
        error = raised(error)
    text = _words(error)
    if _is_of(error, _FAILED):
        return _end_of_traceback(text) or f"{type(error).__name__}: {text}"
    if _is_of(error, _DIED_ONCE) or _is_of(error, _DIED):
        # Further lines are the log of submitit's job, or Ray's list of the processes on the machine.
        text = " ".join(text.splitlines()[:2])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def loggable(error: Exception) -> Exception | None:
    """Return the exception for logging, or ``None`` if a log handler would fail to format its traceback or encode it as UTF-8."""
    try:
        "".join(traceback.format_exception(error)).encode()
    except Exception:
        return None
    return error


def _end_of_traceback(text: str) -> str | None:
    """Return the exception below the last frame of a traceback that is quoted between lines of dashes."""
    quoted = re.search(r"^-{22}\n(.*)\n-{22}$", text, re.DOTALL | re.MULTILINE)
    lines = quoted[1].splitlines() if quoted else []
    frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
    below = lines[frames[-1] :] if frames else []
    ends = [place for place, line in enumerate(below) if line and not line.startswith(" ")]
    return "\n".join(below[ends[0] :]).strip() if ends else None


def n_workers(executor: Executor) -> int:
    """Return the number of calls that an executor runs at once, or 1 if this is unknown."""
    client = _dask(executor)
    if client is not None:
        n_threads: int = sum(client.nthreads().values())
        return max(1, n_threads)
    return int(getattr(executor, "_max_workers", None) or 1)


def _dask(executor: Any) -> Any:
    """Return Dask's client if the executor is one or wraps one, otherwise None."""
    if _is_of(executor, {"distributed": {"Client"}}):
        return executor
    if _is_of(executor, {"distributed": {"ClientExecutor"}}) and not executor._shutdown:
        return executor._client
    return None


def submit(executor: Executor, function: Callable[..., Any], argument: Any) -> Any:
    """Start a call and return its future."""
    client = _dask(executor)
    if client is not None:
        # By default, Dask runs equal calls only once, but a point may be tried twice. Dask's executor never ends a call
        # whose result cannot be unpickled here, for instance if only the workers have PyTorch. The futures of its client do end.
        return client.submit(function, argument, **{"pure": False, **getattr(executor, "_kwargs", {})})
    future = executor.submit(function, argument)
    if _is_of(future, {"submitit": {"DelayedJob"}}):
        raise Error("a study submits one trial after the other: call optimize outside of `with executor.batch()`")
    return future


def result(future: Any, over: threading.Event) -> Any:
    """Wait for the result of a call. Raises the exception of the call, or CancelledError once the run is over."""
    if not hasattr(future, "add_done_callback") and hasattr(future, "done"):
        pause_s = 0.05  # increases to 1 s like in submitit's own loop, because each poll reads a shared file system
        while not future.done():
            if over.wait(pause_s):
                raise CancelledError
            pause_s = min(1.2 * pause_s, 1.0)
    return future.result()
