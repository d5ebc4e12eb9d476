"""Measures many workers that share a study in PostgreSQL or in an SQLite file.

    python benchmarks/workers.py [WORKERS ...] [--storage postgresql] [--storage sqlite] [--jobs N] [--program PATH]

WORKERS processes of `fedbo tune` (64 by default) share a study of 2,000 trials in a PostgreSQL server that this script
starts, or in a file. Each trial is a command of 50 ms, and a worker runs `--jobs` of them at a time. Prints the number
of finished trials per second. A trial that is lost or evaluated twice is an error and stops the script. Requires
PostgreSQL's programs and, if run as root, the user `postgres`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

TRIALS = 2000
STUDY = """
[study]
name = "many"
direction = "minimize"
trials = {trials}
seed = 1
storage = "{storage}"
[strategy]
name = "{strategy}"
[objective]
command = ["sh", "-c", "echo {{x}} >> evaluated; sleep 0.05; echo {{x}}"]
"""
PARAMETER = '[space.{name}]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'


@contextmanager
def postgresql() -> Iterator[str]:
    """Start a temporary server and yield its address."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    initdb = shutil.which("initdb") or (str(found[0]) if found else None)
    if initdb is None:
        raise SystemExit("PostgreSQL (initdb) is not installed")
    folder = Path(tempfile.mkdtemp(prefix="fedbo-pg-"))
    user: dict[str, str] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = {"user": "postgres", "group": "postgres"}
        shutil.chown(folder, **user)
    layout = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--username=fedbo", "-D", str(folder / "data")]
    subprocess.run([initdb, *layout], check=True, capture_output=True, cwd=folder, **user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-D", str(folder / "data"), "-k", str(folder), "-p", str(port), "-c", "max_connections=500"]
    server = subprocess.Popen([str(Path(initdb).with_name("postgres")), *options], stderr=subprocess.DEVNULL, cwd=folder, **user)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"postgresql://fedbo@127.0.0.1:{port}/postgres?sslmode=disable"
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def sqlite() -> Iterator[str]:
    """Yield the address of a file next to the study."""
    yield "sqlite:study.db"


STORAGES = {"postgresql": postgresql, "sqlite": sqlite}


class Tuned(NamedTuple):
    """Measurements of a study with many workers."""

    seconds: float
    peak_mib: float
    """Peak memory of the largest worker."""


def tuned(program: list[str], n_workers: int, n_jobs: int, kind: str, strategy: str) -> Tuned:
    """Run a study with several workers. Every trial must be told and evaluated exactly once."""
    with tempfile.TemporaryDirectory() as name, STORAGES[kind]() as storage:
        folder = Path(name)
        text = STUDY.format(trials=TRIALS, storage=storage, strategy=strategy)
        (folder / "study.toml").write_text(text + "".join(PARAMETER.format(name=each) for each in "xyz"))
        command = [*program, "tune", "study.toml", "--quiet", "--jobs", str(n_jobs)]
        began = time.perf_counter()
        workers = [subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) for _ in range(n_workers)]
        ends = [os.wait4(worker.pid, 0) for worker in workers]
        took = time.perf_counter() - began
        codes = {os.waitstatus_to_exitcode(status) for _, status, _ in ends}
        if codes != {0}:
            raise SystemExit(f"workers ended with {sorted(codes)}")
        listed = subprocess.run([*program, "trials", "study.toml", "--json"], cwd=folder, check=True, capture_output=True, text=True)
        trials = json.loads(listed.stdout)["trials"]
        numbers = [trial["number"] for trial in trials if trial["state"] == "complete"]
        evaluated = len((folder / "evaluated").read_text().splitlines())
        if sorted(numbers) != list(range(TRIALS)) or evaluated != TRIALS:
            raise SystemExit(f"{len(numbers)} trials are told, {evaluated} were evaluated")
        return Tuned(took, max(usage.ru_maxrss for _, _, usage in ends) / 1024)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Many workers of one study")
    parser.add_argument("workers", nargs="*", type=int, default=[64])
    parser.add_argument("--program", help="the program fedbo; by default that of the package")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--storage", choices=STORAGES, action="append")
    given = parser.parse_args()
    program = [str(Path(given.program).resolve())] if given.program else [sys.executable, "-m", "fedbo"]
    print(f"{TRIALS} trials of 50 ms; every trial is told once and evaluated once")
    print(f"{'storage':<12} {'strategy':<8} {'workers':>7} {'jobs':>4} {'seconds':>8} {'trials/s':>9} {'peak MiB of a worker':>21}")
    for kind in given.storage or ["postgresql"]:
        for strategy in ("random", "log-ei"):
            for n_workers in given.workers:
                took = tuned(program, n_workers, given.jobs, kind, strategy)
                rate = TRIALS / took.seconds
                print(f"{kind:<12} {strategy:<8} {n_workers:>7} {given.jobs:>4} {took.seconds:>8.1f} {rate:>9.1f} {took.peak_mib:>21.0f}", flush=True)
