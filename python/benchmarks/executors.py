"""Measures the trials of one study with four executors: a process pool, Dask, submitit and Ray.

    python benchmarks/executors.py [ENGINE ...]

Each executor evaluates 200 trials of 50 ms, four at a time, in processes on this machine. Executors that are not
installed are skipped; the others run one after another. Prints the seconds until the executor has evaluated its first
call, and the seconds of the study after that, which are at least 2.5. The study proposes random points and is stored in
memory, so its own overhead is small.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import fedbo

TRIALS, OPEN, SECONDS = 200, 4, 0.05


def evaluate(params: dict[str, Any]) -> float:
    time.sleep(SECONDS)
    return float(params["x"]) ** 2


@contextlib.contextmanager
def processes() -> Iterator[Any]:
    with ProcessPoolExecutor(OPEN) as pool:
        yield pool


@contextlib.contextmanager
def dask() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=OPEN, **options) as cluster, Client(cluster) as client:
        client.wait_for_workers(OPEN)
        yield client.get_executor()


@contextlib.contextmanager
def submitit() -> Iterator[Any]:
    import submitit

    with tempfile.TemporaryDirectory() as folder:
        yield submitit.AutoExecutor(folder=folder, cluster="local")


@contextlib.contextmanager
def ray() -> Iterator[Any]:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # otherwise Ray writes a token into the home folder
    import ray
    from fedbo.integrations.ray import RayExecutor

    ray.init(num_cpus=OPEN, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield RayExecutor()
    finally:
        ray.shutdown()


ENGINES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "ProcessPoolExecutor": processes,
    "Dask": dask,
    "submitit local": submitit,
    "Ray": ray,
}


def timed(engine: str) -> tuple[float, float]:
    """Return the seconds until an engine has evaluated its first call, and the seconds of the study."""
    began = time.perf_counter()
    with ENGINES[engine]() as executor:
        warm = fedbo.Study("warm", {"x": fedbo.Float(-2, 2)}, direction="minimize", strategy="random")
        warm.optimize(evaluate, OPEN, executor=executor, n_jobs=OPEN)
        ready = time.perf_counter()
        study = fedbo.Study("timed", {"x": fedbo.Float(-2, 2)}, direction="minimize", strategy="random")
        report = study.optimize(evaluate, TRIALS, executor=executor, n_jobs=OPEN)
        took = time.perf_counter() - ready
    if (report.told, report.failed) != (TRIALS, 0):
        raise SystemExit(f"{engine}: {report.told} trials were told, of which {report.failed} failed")
    return ready - began, took


if __name__ == "__main__":
    print(f"{TRIALS} trials of {SECONDS * 1000:.0f} ms, {OPEN} at once: {TRIALS * SECONDS / OPEN:.1f} s at least")
    for engine in sys.argv[1:] or ENGINES:
        try:
            start, took = timed(engine)
        except ImportError as error:
            print(f"{engine:<20} not installed ({error.name})")
        else:
            print(f"{engine:<20} first call after {start:5.1f} s, {TRIALS} trials in {took:6.1f} s, {TRIALS / took:6.1f} a second")
