"""Flower's SuperLink and SuperNodes as local processes that can be killed and restarted.

Requires Linux, because ``/proc`` is used to find the processes that belong to a deployment.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

APP = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "{name}"
version = "1.0.0"
license = "Apache-2.0"
dependencies = ["flwr>=1.41"]
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "labs"
[tool.flwr.app.components]
serverapp = "{server}"
clientapp = "{client}"
[tool.flwr.app.config]
{config}
"""


def fedbo_app(folder: Path) -> Path:
    """Write the app of ``docs/flower.md``."""
    folder.mkdir()
    config = 'fedbo-data = ""\nfedbo-study = ""'
    components = {"server": "fedbo.flower.server_app:app", "client": "fedbo.flower.client_app:app"}
    (folder / "pyproject.toml").write_text(APP.format(name="labs", config=config, **components))
    return folder


def wait_for(
    what: str, found: Callable[[], T], seconds: float, still: Callable[[], object] | None = None, pause_s: float = 0.2
) -> T:
    """Poll until ``found`` returns a true value, and return this value. ``still`` raises an error if that has become impossible."""
    until = time.monotonic() + seconds
    while True:
        result = found()
        if result:
            return result
        if still is not None:
            still()
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(pause_s)


class Deployment:
    """A SuperLink, and a SuperNode for each configuration, each in a separate session.

    On exit, all of their processes are killed, including those that Flower started in further sessions.
    """

    def __init__(
        self, folder: Path, configs: Sequence[Mapping[str, str]], env: Mapping[str, str], database: Path | None = None
    ) -> None:
        self._folder, self._configs = folder, configs
        self._database = [] if database is None else ["--database", str(database)]
        self.port, *self._ports = _free_ports(len(configs) + 1)
        home = folder / "flwr"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._env = {**env, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "PATH": programs}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Deployment:
        try:
            self.start_link()
            for index in range(len(self._configs)):
                self.start_node(index)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()
        if kind is not None:
            sys.stderr.write(self.logs())

    def start_link(self) -> None:
        """Start the SuperLink, and wait until it listens."""
        link = ["flower-superlink", "--insecure", "--port", str(self.port), "--disable-runtime-dependency-installation"]
        process = self._start("superlink", [*link, *self._database])

        def has_ended() -> None:
            assert process.poll() is None, f"the SuperLink ended with {process.returncode}"

        wait_for("the SuperLink listens", lambda: _listens(self.port), 60, has_ended)

    def start_node(self, index: int) -> None:
        """Start a SuperNode."""
        config = _joined(self._configs[index])
        addresses = ["--superlink", f"127.0.0.1:{self.port}", "--port", str(self._ports[index])]
        self._start(f"supernode-{index}", ["flower-supernode", "--insecure", *addresses, "--node-config", config])

    def ended_nodes(self) -> list[int]:
        """Return the SuperNodes whose processes have exited."""
        return [index for index in range(len(self._configs)) if self._processes[f"supernode-{index}"].poll() is not None]

    def kill_link(self) -> None:
        """Kill the SuperLink, and wait until the processes that it started have exited."""
        self._kill("superlink")
        wait_for("the SuperLink's processes end", lambda: not self._pids("superlink"), 60)

    def kill_node(self, index: int) -> None:
        """Kill a SuperNode and all processes that it started."""
        self._kill(f"supernode-{index}")
        for pid in self._pids(f"supernode-{index}"):
            _kill(pid)

    def kill_server_app(self) -> None:
        """Kill only the process of the ServerApp."""
        pids = wait_for("a ServerApp runs", lambda: self._pids("superlink", "flwr-serverapp"), 60)
        for pid in pids:
            _kill(pid)
        wait_for("the ServerApp ends", lambda: not self._pids("superlink", "flwr-serverapp"), 60)

    def stream(self, app: Path, config: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start ``flwr run --stream``, which ends with its run. Its output is in the log ``run``."""
        return self._start("run", ["flwr", "run", ".", "--stream", *_configured(config)], app)

    def submit(self, app: Path, config: Mapping[str, str] | None = None) -> int:
        """Call ``flwr run``, and return the run's id."""
        ran = self._flwr("run", ".", "--format", "json", *_configured(config or {}), cwd=app)
        return int(ran["run-id"])

    def status(self, run: int) -> str:
        """Return the status of a run according to ``flwr list``: ``running``, ``finished:failed``, or ``unknown``."""
        shown = self._flwr("list", "--run-id", str(run), "--format", "json")
        return str(shown["runs"][0]["status"]) if shown.get("runs") else "unknown"

    def app_log(self, run: int) -> str:
        """Return the log of a run's ServerApp."""
        command = ["flwr", "log", str(run), "--show"]
        return subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=120).stdout

    def log(self, name: str = "superlink") -> str:
        """Return the log of a process and its children, across all restarts."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def logs(self) -> str:
        """Return the ends of all logs."""
        return "".join(f"\n--- {name}\n{self.log(name)[-6000:]}" for name in self._processes)

    def _flwr(self, *arguments: str, cwd: Path | None = None) -> Any:
        asked = subprocess.run(
            ["flwr", *arguments], cwd=cwd or self._folder, env=self._env, capture_output=True, text=True, timeout=120
        )
        assert asked.returncode == 0, asked.stdout + asked.stderr
        return json.loads(asked.stdout)

    def _start(self, name: str, command: Sequence[str], cwd: Path | None = None) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("a") as log:
            self._processes[name] = subprocess.Popen(
                command,
                env={**self._env, _NAME: self._named(name)},
                cwd=cwd or self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._processes[name]

    def _named(self, name: str) -> str:
        return f"{self._folder}:{name}"

    def _pids(self, name: str, program: str = "") -> list[int]:
        return list(_processes(self._named(name), program))

    def _kill(self, name: str) -> None:
        process = self._processes[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)

    def _end(self) -> None:
        # SuperNodes first: killed SuperNodes do not notify the SuperLink, and start no further processes.
        for name in reversed(list(self._processes)):
            self._kill(name)
        for name in self._processes:
            for pid in self._pids(name):
                _kill(pid)
        wait_for("all processes end", lambda: not any(self._pids(name) for name in self._processes), 20)


_NAME = "FEDBO_TESTED_PROCESS"
"""Environment variable that is inherited by all processes of a deployment."""


def _joined(config: Mapping[str, str]) -> str:
    return " ".join(f'{key}="{value}"' for key, value in config.items())


def _configured(config: Mapping[str, str]) -> list[str]:
    return ["--run-config", _joined(config)] if config else []


def _processes(named: str, program: str) -> Iterator[int]:
    mark = f"{_NAME}={named}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        # A process may have exited in the meantime, or belong to another user.
        with contextlib.suppress(OSError):
            if mark not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            if program.encode() in (folder / "cmdline").read_bytes():
                yield int(folder.name)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
