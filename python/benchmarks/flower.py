"""Measures a federation inside Flower: its time, and its recovery from a killed coordinator compared with Flower's FedAvg.

    python benchmarks/flower.py time
    python benchmarks/flower.py fedavg fedbo

A SuperLink and three SuperNodes run on this machine, which must run Linux and be otherwise idle. The package must be
installed with the extra `flower`. Each part takes about ten minutes and prints a table.

`time`: six rounds of `fts`, which end when all agents have delivered, and of `dp-fts-de`, whose uploads have 10 s to
arrive. The objective takes no time, so almost all of a round of `fts` is spent on starting Flower's processes.

`fedavg`, `fedbo`: in round 3 of 6, `kill -9` kills the process of the ServerApp or of the SuperLink. The SuperLink is
restarted immediately, with and without `--database`. The script then waits until Flower reports the state of the run,
and for at least a minute. Afterwards it restarts SuperNodes that have exited, and the app with the same `flwr run`.
Prints the state of the run and the seconds until it was reported, whether a later round began in the meantime, the
first round after the restart, and the total work of each client: training rounds of FedAvg (6 needed), or trials of
fedbo (8 needed).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from superlink import APP, Deployment, fedbo_app, wait_for

import fedbo

CLIENTS = 3
ROUNDS = 6
KILLED_IN = 3

FEDERATION = """
[federation]
name = "labs"
direction = "minimize"
algorithm = "{algorithm}"
rounds = 6
initial = 2
seed = 7
[features]
count = 30
lengthscale = 0.3
[network]
round_s = {round_s}
{more}
[space.x]
type = "float"
low = -5.0
high = 5.0
[space.y]
type = "float"
low = -5.0
high = 5.0
[[agents]]
name = "lab-0"
[[agents]]
name = "lab-1"
[[agents]]
name = "lab-2"
"""
RELAYED = {"name": "`fts`", "algorithm": "fts", "round_s": 60.0, "more": ""}
RELEASED = {
    "name": "`dp-fts-de`, `round_s = 42`, `collect_s = 40`",
    "algorithm": "dp-fts-de",
    "round_s": 42.0,
    "more": "collect_s = 40.0\n[privacy]\nepsilon = 6.0\nreleases = 6\n[exploration]\nregions = 1",
}
OBJECTIVE = """
import json, os, sys
p = json.loads(os.environ["FEDBO_PARAMS"])
with open(sys.argv[1], "a") as work:
    work.write(os.environ["FEDBO_PARAMS"] + "\\n")
print((p["x"] - 0.7) ** 2 + (p["y"] + 1.0) ** 2)
"""

FEDAVG_SERVER = """
import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()

@app.main()
def main(grid: Grid, context: Context) -> None:
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=6)
"""
FEDAVG_CLIENT = """
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message: Message, context: Context) -> Message:
    with open(context.node_config["work"], "a") as work:
        work.write(f"{message.content['config']['server-round']}\\n")
    (counter,) = message.content["arrays"].to_numpy_ndarrays()
    trained = {"arrays": ArrayRecord([counter + 1.0]), "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(trained), reply_to=message)
"""


class Federated(Protocol):
    """An app and its progress."""

    name: str
    app: Path
    config: dict[str, str]
    configs: list[dict[str, str]]

    def work(self) -> list[int]:
        """Return the units of work per client so far."""
        ...

    def is_in(self, round_number: int) -> bool:
        """Return True once a client works on this round."""
        ...

    def first_round_after(self, work: list[int]) -> int:
        """Return the first round for which clients have worked after this amount of work."""
        ...


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


class FedAvg:
    name = "FedAvg"

    def __init__(self, folder: Path) -> None:
        self._work = [folder / f"work-{client}" for client in range(CLIENTS)]
        self.configs = [{"work": str(file)} for file in self._work]
        self.app, self.config = folder / "app", {}
        package = self.app / "counting"
        package.mkdir(parents=True)
        components = {"server": "counting.server:app", "client": "counting.client:app"}
        (self.app / "pyproject.toml").write_text(APP.format(name="counting", config="", **components))
        for file, text in [("__init__", ""), ("server", FEDAVG_SERVER), ("client", FEDAVG_CLIENT)]:
            (package / f"{file}.py").write_text(text)

    def work(self) -> list[int]:
        return [len(lines(file)) for file in self._work]

    def is_in(self, round_number: int) -> bool:
        return any(str(round_number) in lines(file) for file in self._work)

    def first_round_after(self, work: list[int]) -> int:
        return min(int(lines(file)[done]) for file, done in zip(self._work, work, strict=True))


class Fedbo:
    name = "fedbo"

    def __init__(self, folder: Path, kind: dict[str, object]) -> None:
        self._folder = folder
        self.data = folder / "coordinator"
        (folder / "federation.toml").write_text(FEDERATION.format(**kind))
        (folder / "problem.py").write_text(OBJECTIVE)
        created = self.program("study", "create", str(folder / "federation.toml"))
        self.homes = [folder / f"home-{client}" for client in range(CLIENTS)]
        self.configs = []
        is_charged = "[privacy]" in str(kind["more"])
        for client, token in enumerate(json.loads(created)["tokens"]):
            (folder / f"token-{client}").write_text(token["token"])
            command = json.dumps([sys.executable, "problem.py", f"work-{client}"])
            budget = "[privacy]\nepsilon_max = 6.0\n" if is_charged else ""
            file = folder / f"agent-{client}.toml"
            file.write_text(f'[agent]\nhome = "home-{client}"\n[objective]\ncommand = {command}\n{budget}')
            self.configs.append({"fedbo-agent": str(file), "fedbo-token": str(folder / f"token-{client}")})
        self.app, self.config = fedbo_app(folder / "app"), {"fedbo-data": str(self.data)}

    def program(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "fedbo", "coordinator", *arguments, "--data", str(self.data), "--json"]
        return subprocess.run(command, cwd=self._folder, env=environment(), check=True, capture_output=True, text=True).stdout

    def work(self) -> list[int]:
        return [len(lines(self._folder / f"work-{client}")) for client in range(CLIENTS)]

    def is_in(self, round_number: int) -> bool:
        # Two trials before the first round, and one in each.
        return any(done >= 2 + round_number for done in self.work())

    def first_round_after(self, work: list[int]) -> int:
        shows = (line for line in self.log.splitlines() if "leading the rounds" in line)
        return int(re.findall(r"round=(\d+)", list(shows)[-1])[0])

    log = ""
    """Log of the app's last run."""


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fedbo-flower-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(fedbo.__file__).resolve().parents[1])}


def timed(kind: dict[str, object]) -> str:
    """Measure one algorithm. Return a row of the table of times."""
    with folder() as where:
        federation = Fedbo(where, kind)
        with Deployment(where, federation.configs, environment()) as flower:
            began = time.monotonic()
            run = flower.stream(federation.app, federation.config)
            assert run.wait(900) == 0, flower.log("run")
            took = time.monotonic() - began
            said = flower.log("run")
            messages = [flower.log(f"supernode-{client}").count("Start `flwr-clientapp` process") for client in range(CLIENTS)]
        stamps = re.findall(r"(\S+)Z +INFO \S+ (?:a round begins|leading the rounds)", said)
        began_at = [datetime.fromisoformat(stamp) for stamp in stamps]
        seconds = [(later - earlier).total_seconds() for earlier, later in zip(began_at, began_at[1:], strict=False)]
        # Skip round 0, which includes enrolment and the initial trials.
        rounds = seconds[1:ROUNDS]
        in_time = sum(fedbo.Agent(home).study_status().uploads_acknowledged for home in federation.homes)
        # After the last round, each agent of a relayed study sends one more message. In a private study it does not.
        of = CLIENTS * (ROUNDS + (kind is RELAYED))
        return f"| {kind['name']} | {_span(rounds, '.1f')} s | {took:.0f} s | {in_time} of {of} | {_span(messages, 'd')} |"


def _span(values: Sequence[float], form: str) -> str:
    return " to ".join(dict.fromkeys(format(value, form) for value in (min(values), max(values))))


def killed(federation: Federated, where: Path, killed: str, has_database: bool) -> str:
    """Kill one process. Return a row of the table of failures."""
    database = where / "state.db" if has_database else None
    with Deployment(where, federation.configs, environment(), database) as flower:
        run = flower.submit(federation.app, federation.config)
        wait_for("round 3", lambda: federation.is_in(KILLED_IN), 400)
        began = time.monotonic()
        if killed == "ServerApp":
            flower.kill_server_app()
        else:
            flower.kill_link()
            flower.start_link()
        said = wait_for("the run's state", lambda: _ended(flower.status(run)), 300, pause_s=1.0)
        after = time.monotonic() - began
        time.sleep(max(10.0, 60.0 - after))
        nodes = flower.ended_nodes()
        went_on, work = federation.is_in(KILLED_IN + 1), federation.work()
        for node in nodes:
            flower.start_node(node)
        again = flower.submit(federation.app, federation.config)
        wait_for("the run ends", lambda: flower.status(again).startswith("finished"), 600, pause_s=3.0)
        assert flower.status(again) == "finished:completed", flower.status(again)
        if isinstance(federation, Fedbo):
            federation.log = flower.app_log(again)
        row = [
            federation.name,
            killed + (", `--database`" if has_database else ""),
            f"{said} after {after:.0f} s",
            f"{len(nodes)} of {CLIENTS}",
            "yes" if went_on else "no",
            str(federation.first_round_after(work)),
            ", ".join(map(str, federation.work())),
        ]
        if isinstance(federation, Fedbo):
            assert [fedbo.Agent(home).study_status().finished for home in federation.homes] == [True] * CLIENTS
        return f"| {' | '.join(row)} |"


def _ended(status: str) -> str:
    return "" if status in ("pending", "starting", "running") else status


def killed_each(make: Callable[[Path], Federated]) -> None:
    """Print the table of failures of an app."""
    columns = ["app", "killed in round 3", "the run", "SuperNodes that end", "goes on by itself", "first round of the next run"]
    print(f"| {' | '.join(columns)} | work of each client |", "| --- |" + " --- |" * len(columns), sep="\n", flush=True)
    for who, has_database in (("ServerApp", False), ("SuperLink", False), ("SuperLink", True)):
        with folder() as where:
            print(killed(make(where), where, who, has_database), flush=True)


def main() -> None:
    for part in sys.argv[1:]:
        match part:
            case "time":
                columns = ["6 rounds, 3 agents", "a round", "all, with enrolment", "uploads in time"]
                print(f"| {' | '.join(columns)} | messages an agent |", "| --- |" + " --- |" * len(columns), sep="\n", flush=True)
                for kind in (RELAYED, RELEASED):
                    print(timed(kind), flush=True)
            case "fedavg":
                killed_each(FedAvg)
            case "fedbo":
                killed_each(lambda where: Fedbo(where, RELAYED))
            case _:
                sys.exit(f"{part!r}: expected time, fedavg or fedbo")


if __name__ == "__main__":
    main()
