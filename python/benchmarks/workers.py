"""Many workers of one study through PostgreSQL.

    python benchmarks/workers.py [WORKERS]

So many processes of `fedbo tune` (64 unless told otherwise) share a study of 2,000 trials in a PostgreSQL server that this script starts; each
trial is a command of 50 ms. Printed is how many trials were told a second, and that none was lost or evaluated twice. It needs PostgreSQL's
programs, and as root the user `postgres`.
"""

from __future__ import annotations

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


def fedbo(*words: str) -> list[str]:
    return [sys.executable, "-m", "fedbo", *words]


@contextmanager
def postgresql() -> Iterator[str]:
    """The address of a server of its own."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    initdb = shutil.which("initdb") or (str(found[0]) if found else None)
    if initdb is None:
        raise SystemExit("PostgreSQL (initdb) is not installed")
    folder = Path(tempfile.mkdtemp(prefix="fedbo-pg-"))
    user: dict[str, str] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
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


def tuned(n_workers: int, strategy: str) -> float:
    """The seconds that the workers take for all trials."""
    with tempfile.TemporaryDirectory() as name, postgresql() as storage:
        folder = Path(name)
        text = STUDY.format(trials=TRIALS, storage=storage, strategy=strategy)
        (folder / "study.toml").write_text(text + "".join(PARAMETER.format(name=each) for each in "xyz"))
        began = time.perf_counter()
        command = fedbo("tune", "study.toml", "--quiet")
        workers = [subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) for _ in range(n_workers)]
        codes = [worker.wait() for worker in workers]
        took = time.perf_counter() - began
        if any(codes):
            raise SystemExit(f"workers ended with {sorted(set(codes))}")
        listed = subprocess.run(fedbo("trials", "study.toml", "--json"), cwd=folder, check=True, capture_output=True, text=True)
        trials = json.loads(listed.stdout)["trials"]
        numbers = [trial["number"] for trial in trials if trial["state"] == "complete"]
        evaluated = len((folder / "evaluated").read_text().splitlines())
        if sorted(numbers) != list(range(TRIALS)) or evaluated != TRIALS:
            raise SystemExit(f"{len(numbers)} trials are told, {evaluated} were evaluated")
        return took


if __name__ == "__main__":
    n_workers = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    for strategy in ("random", "log-ei"):
        took = tuned(n_workers, strategy)
        print(f"{n_workers} workers, {strategy:<8} {TRIALS} trials of 50 ms in {took:7.1f} s: {TRIALS / took:7.1f} a second, none lost, none doubled")
