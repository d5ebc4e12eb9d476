"""Measures asks per second of ``fedbo serve`` with many thin workers, compared with Optuna's gRPC storage proxy.

    python benchmarks/serve.py                                   # 200 workers, 2000 trials of 50 ms, random and log-ei
    python benchmarks/serve.py --optuna /path/to/venv/bin/python # also Optuna; needs optuna and grpcio

Workers are threads in several processes on this machine, so they share its processors with the server. A worker measures
the time from its request to the trial, including the time in the server's queue. Both servers store trials in an SQLite
file in a temporary folder, or in memory, where they are lost when the server stops.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

STUDY = """
[study]
name = "served"
direction = "minimize"
trials = {trials}
storage = "{storage}"
[strategy]
name = "{strategy}"
"""
PARAMETER = '[space.{name}]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'
NAMES = ("x", "y", "z")


def fedbo_worker(url: str, token: str, seconds: float) -> list[float]:
    """Run a worker until the study is full. Return the seconds of each ask."""
    import fedbo

    worker = fedbo.Worker(url, token)
    asks = []
    while True:
        began = time.perf_counter()
        trial = worker.ask()
        if isinstance(trial, str):
            return asks
        asks.append(time.perf_counter() - began)
        time.sleep(seconds)
        worker.tell(trial, sum((trial[name] - 0.3) ** 2 for name in NAMES))


def optuna_worker(port: str, n_trials: str, seconds: float) -> list[float]:
    """Like `fedbo_worker`, with a storage behind Optuna's proxy. The worker itself draws the points."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    storage = optuna.storages.GrpcStorageProxy(host="127.0.0.1", port=int(port))
    study = optuna.load_study(study_name="served", storage=storage, sampler=optuna.samplers.RandomSampler())
    asks: list[float] = []
    while True:
        began = time.perf_counter()
        trial = study.ask()
        point = [trial.suggest_float(name, 0.0, 1.0) for name in NAMES]
        if trial.number >= int(n_trials):
            return asks
        asks.append(time.perf_counter() - began)
        time.sleep(seconds)
        study.tell(trial, sum((x - 0.3) ** 2 for x in point))


def optuna_server(address: str, port: str) -> None:
    """Run Optuna's proxy until it is killed."""
    import optuna

    storage = optuna.storages.InMemoryStorage() if address == "memory" else optuna.storages.RDBStorage(address)
    optuna.create_study(study_name="served", storage=storage, direction="minimize")
    print("ready", flush=True)
    optuna.storages.run_grpc_proxy_server(storage, host="127.0.0.1", port=int(port))


def be_workers(kind: str, first: str, second: str, seconds: float, n_threads: int) -> None:
    """Run workers as threads of this process. Print the seconds of their asks."""
    work: Callable[[str, str, float], list[float]] = fedbo_worker if kind == "fedbo" else optuna_worker
    asks: list[float] = []
    lost: list[BaseException] = []

    def run() -> None:
        try:
            asks.extend(work(first, second, seconds))
        except BaseException as error:
            lost.append(error)

    threads = [threading.Thread(target=run) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"asks": asks, "lost": [repr(error) for error in lost[:3]], "n_lost": len(lost)}))


def timed(python: str, kind: str, first: str, second: str, options: argparse.Namespace) -> str:
    """Run the workers. Return their measurements as a row of a table."""
    each = options.workers // options.processes
    words = [python, __file__, "--be", kind, first, second, str(options.seconds), str(each)]
    began = time.perf_counter()
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(options.processes)]
    said = [json.loads(process.communicate()[0]) for process in running]
    seconds = time.perf_counter() - began
    asks = sorted(ask for each in said for ask in each["asks"])
    if not asks:
        return f"no worker has got a trial: {said[0]['lost']}"
    p50, p99 = (asks[int(share * (len(asks) - 1))] * 1e3 for share in (0.5, 0.99))
    row = f"{len(asks):6d} {seconds:9.1f} {len(asks) / seconds:10.1f} {p50:11.1f} {p99:11.1f}"
    n_lost = sum(each["n_lost"] for each in said)
    return row + (f"  ({n_lost} workers ended with an error: {next(e['lost'][0] for e in said if e['lost'])})" if n_lost else "")


def with_fedbo(strategy: str, kind: str, options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as folder:
        storage = "memory:" if kind == "memory" else "sqlite:served.db"
        text = STUDY.format(trials=options.trials, strategy=strategy, storage=storage)
        (Path(folder) / "study.toml").write_text(text + "".join(PARAMETER.format(name=name) for name in NAMES))
        program = options.program or [sys.executable, "-m", "fedbo"]
        command = [*program, "serve", "study.toml", "--listen", "127.0.0.1:0", "--json", "--quiet"]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            said = json.loads(server.stdout.readline())
            return timed(sys.executable, "fedbo", said["url"], said["token"], options)
        finally:
            server.terminate()
            server.wait()


def with_optuna(kind: str, options: argparse.Namespace) -> str:
    port = "17437"
    with tempfile.TemporaryDirectory() as folder:
        address = "memory" if kind == "memory" else f"sqlite:///{folder}/served.db"
        command = [options.optuna, __file__, "--serve-optuna", address, port]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            while "ready" not in (line := server.stdout.readline()):
                assert line, "Optuna's proxy does not start"
            time.sleep(2.0)
            return timed(options.optuna, "optuna", port, str(options.trials), options)
        finally:
            server.kill()
            server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--strategies", nargs="*", default=["random", "log-ei"])
    parser.add_argument("--program", nargs="+", help="the program fedbo, instead of the package's")
    parser.add_argument("--optuna", metavar="PYTHON", help="a Python that has optuna and grpcio")
    options = parser.parse_args()
    print(f"{options.workers} workers, {options.trials} trials of {options.seconds * 1e3:.0f} ms")
    print(f"{'':34} trials   seconds   asks a s  ask p50 ms  ask p99 ms")
    for kind in ("sqlite", "memory"):
        for strategy in options.strategies:
            print(f"{f'fedbo serve, {kind}, {strategy}':34} {with_fedbo(strategy, kind, options)}", flush=True)
    for kind in ("sqlite", "memory") if options.optuna else ():
        print(f"{f'Optuna gRPC proxy, {kind}, random':34} {with_optuna(kind, options)}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--be"]:
        be_workers(*sys.argv[2:5], float(sys.argv[5]), int(sys.argv[6]))  # type: ignore[call-arg]
    elif sys.argv[1:2] == ["--serve-optuna"]:
        optuna_server(*sys.argv[2:4])
    else:
        main()
