"""Helpers for tests in a real browser: a running dashboard, a page that records its errors, and data to display."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import fedbo
from conftest import environment

HOSTILE = "<img src=x onerror=document.title='taken'>"


class Served:
    """A running dashboard."""

    def __init__(self, folder: Path, *words: str, listen: str = "127.0.0.1:0") -> None:
        command = [sys.executable, "-m", "fedbo", "dashboard", *words, "--listen", listen, "--no-open", "--json"]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.url: str = json.loads(line)["url"]
        self.base = self.url.split("?")[0]

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)


class Page:
    """A page that records its errors."""

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.faults: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", lambda said: self.faults.append(said.text) if said.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def open(self, address: str, selector: str) -> Any:
        self.page.goto(address)
        self.page.wait_for_selector(selector)
        return self.page


def tuned(folder: Path, trials: int = 30, name: str = "kiln", said: str = HOSTILE + "x" * 500) -> fedbo.Study:
    """Create a study with a few failed trials. The page must show their messages as text, not as markup."""

    def objective(trial: fedbo.Trial) -> float:
        if trial["glaze"] == HOSTILE:
            raise ValueError(said)
        return (float(trial["heat"]) - 0.3) ** 2 + 0.1

    study = fedbo.Study(
        name,
        {"heat": fedbo.Float(0, 1), "glaze": ["matt", "gloss", HOSTILE]},
        direction="minimize",
        storage=folder / "kiln.db",
        seed=3,
    )
    study.optimize(objective, trials, failures_max=trials)
    return study


def results(folder: Path, agents: int, rounds: int) -> Path:
    """Write results of two arms in the format of ``fedbo run``."""
    lines = ["experiment,arm,agent,run,iteration,source,x,value,best,regret,ask_seconds,status"]
    for arm in ("fts", "ts"):
        for iteration in range(rounds + 1):
            for agent in range(agents):
                source = "initial" if iteration == 0 else "message:lab 0" if (agent + iteration) % 3 == 0 else "own"
                best = 1.0 / (1 + iteration // 4 + agent % 2)
                lines.append(f"many,{arm},lab {agent},0,{iteration},{source},0.5,{best},{best},,0.001,ok")
    target = folder / "results" / "many"
    target.mkdir(parents=True)
    (target / "results.csv").write_text("\n".join(lines) + "\n")
    return target


def shown(page: Any) -> str:
    return str(page.inner_text("main"))


def wait_for_text(page: Any, text: str, seconds: float = 20) -> None:
    page.wait_for_function("text => document.body.innerText.includes(text)", arg=text, timeout=1000 * seconds)
