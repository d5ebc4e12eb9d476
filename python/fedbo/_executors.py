"""Executors: how calls are handed to process pools, Dask, Ray and submitit, and what their errors say of a trial."""

from __future__ import annotations

import enum
import pickle
import re
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from typing import Any, Protocol

from fedbo._errors import Error

ATTEMPTS_MAX = 4
"""Evaluations of a trial whose worker dies each time: as many as Dask and Ray make unless told otherwise."""


class Executor(Protocol):
    """Whatever runs functions elsewhere: ``concurrent.futures``, Dask, Ray, submitit, loky, mpi4py."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Begin a call; the answer has ``add_done_callback`` and ``result``, or ``done`` and ``result``."""


class WorkerDied(Exception):
    """The worker of a call died, and the executor leaves it to the study to repeat the call. Its cause is the engine's error."""


class Ending(enum.Enum):
    """The meaning of an error for the trial whose evaluation ended with it."""

    RAISED = enum.auto()
    """The function raised: the trial has failed."""
    DIED = enum.auto()
    """Its worker died, and the engine has repeated it as often as it does: the trial has failed."""
    DIED_ONCE = enum.auto()
    """Its worker died, and the engine repeats nothing: the trial is evaluated again."""
    BROKEN = enum.auto()
    """The executor evaluates nothing, whatever the point: the run ends."""


# Classes of packages that are not imported for this.
_DIED = {
    "distributed": {"KilledWorker"},
    "ray": {"NodeDiedError", "OutOfMemoryError", "RayActorError", "WorkerCrashedError"},
}
_DIED_ONCE = {"submitit": {"UncompletedJobError"}}
_FAILED = {"submitit": {"FailedJobError"}}  # a subclass of it
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
    """The meaning of an error that the future of a call raised."""
    if isinstance(error, WorkerDied) or _is_of(error, _DIED_ONCE):
        # A job of submitit whose function raised has a result.
        return Ending.RAISED if _is_of(error, _FAILED) else Ending.DIED_ONCE
    error = raised(error)
    if isinstance(error, (BrokenExecutor, CancelledError, pickle.PicklingError)) or _is_of(error, _BROKEN):
        return Ending.BROKEN
    # Python 3.11 and 3.13 word it differently.
    wordings = ("pickle", "local object")
    if isinstance(error, (AttributeError, TypeError)) and any(wording in str(error) for wording in wordings):
        return Ending.BROKEN
    return Ending.DIED if _is_of(error, _DIED) else Ending.RAISED


def raised(error: Exception) -> Exception:
    """The exception that says what happened: Ray wraps the function's own in one whose text is a coloured traceback."""
    if isinstance(error, WorkerDied) and isinstance(error.__cause__, Exception):
        return error.__cause__
    cause = getattr(error, "cause", None) if _is_of(error, {"ray": {"RayTaskError"}}) else None
    return cause if isinstance(cause, Exception) else error


def describe(error: BaseException) -> str:
    """An exception in one line."""
    if isinstance(error, Exception):
        error = raised(error)
    try:
        text = str(error)
    except Exception:
        text = "its text cannot be shown"
    if _is_of(error, _FAILED):
        return _end_of_traceback(text) or f"{type(error).__name__}: {text}"
    if _is_of(error, _DIED_ONCE) or _is_of(error, _DIED):
        # After two lines follow the log of submitit's job, or Ray's list of the machine's processes.
        text = " ".join(text.splitlines()[:2])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _end_of_traceback(text: str) -> str | None:
    """The exception below the last frame of the traceback that a text quotes between lines of dashes."""
    quoted = re.search(r"^-{22}\n(.*)\n-{22}$", text, re.DOTALL | re.MULTILINE)
    lines = quoted[1].splitlines() if quoted else []
    frames = [place for place, line in enumerate(lines) if line.startswith('  File "')]
    below = lines[frames[-1] :] if frames else []
    ends = [place for place, line in enumerate(below) if line and not line.startswith(" ")]
    return "\n".join(below[ends[0] :]).strip() if ends else None


def n_workers(executor: Executor) -> int:
    """The number of calls that an executor runs at once, 1 if it does not tell."""
    client = _dask(executor)
    if client is not None:
        n_threads: int = sum(client.nthreads().values())
        return max(1, n_threads)
    return int(getattr(executor, "_max_workers", None) or 1)


def _dask(executor: Any) -> Any:
    """Dask's client, if an executor is one or is made of one; None otherwise."""
    if _is_of(executor, {"distributed": {"Client"}}):
        return executor
    if _is_of(executor, {"distributed": {"ClientExecutor"}}) and not executor._shutdown:
        return executor._client
    return None


def submit(executor: Executor, function: Callable[..., Any], argument: Any) -> Any:
    """Begin a call; the answer is what the executor returns."""
    client = _dask(executor)
    if client is not None:
        # Dask takes equal calls for one unless told otherwise, and a point may be tried twice. Its executor never ends a call
        # whose result cannot be unpickled here, as where PyTorch is installed on the workers only; futures of its client do.
        return client.submit(function, argument, **{"pure": False, **getattr(executor, "_kwargs", {})})
    future = executor.submit(function, argument)
    if _is_of(future, {"submitit": {"DelayedJob"}}):
        raise Error("a study submits one trial after the other: call optimize outside of `with executor.batch()`")
    return future


def result(future: Any, over: threading.Event) -> Any:
    """The result of a call, which is waited for. Raises what the call raised; CancelledError once the run is over."""
    if not hasattr(future, "add_done_callback") and hasattr(future, "done"):
        pause_s = 0.05  # up to the second of submitit's own loop, which asks a shared file system
        while not future.done():
            if over.wait(pause_s):
                raise CancelledError
            pause_s = min(1.2 * pause_s, 1.0)
    return future.result()
