"""Shared fixtures: the program, and scripts that run in separate processes."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fedbo

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[[str], "subprocess.Popen[str]"]


def environment(folder: Path) -> dict[str, str]:
    # Use the same package as this process, whether it is installed or in the source tree.
    return {**os.environ, "PYTHONPATH": str(Path(fedbo.__file__).resolve().parents[1]), "HOME": str(folder)}


@pytest.fixture
def program(tmp_path: Path) -> Run:
    """Run the program ``fedbo`` in the test's folder."""

    def run(*arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [sys.executable, "-m", "fedbo", *arguments],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ended.returncode == status, ended.stderr
        return ended

    return run


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start a script in a separate process in the test's folder."""

    numbers = itertools.count()

    def begin(text: str) -> subprocess.Popen[str]:
        script = tmp_path / f"script-{next(numbers)}.py"
        script.write_text(textwrap.dedent(text))
        return subprocess.Popen(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return begin


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Start a PostgreSQL server and return its address. Skip the test if PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    initdb = shutil.which("initdb") or (str(found[0]) if found else None)
    if initdb is None:
        pytest.skip("PostgreSQL (initdb) is not installed")
    folder = Path(tempfile.mkdtemp(prefix="fedbo-pg-"))
    user: dict[str, str] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = {"user": "postgres", "group": "postgres"}
        shutil.chown(folder, **user)
    layout = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--username=fedbo", "-D", folder / "data"]
    subprocess.run([initdb, *layout], check=True, capture_output=True, cwd=folder, **user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-D", folder / "data", "-k", folder, "-p", str(port), "-c", "listen_addresses=127.0.0.1"]
    server = subprocess.Popen(
        [Path(initdb).with_name("postgres"), *options], stderr=subprocess.DEVNULL, cwd=folder, **user
    )
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"postgresql://fedbo@127.0.0.1:{port}/postgres?sslmode=disable"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_line(process: subprocess.Popen[str], line: str) -> None:
    """Wait until a process has printed a line."""
    assert process.stdout is not None
    for said in process.stdout:
        if said.strip() == line:
            return
    _, errors = process.communicate()
    raise AssertionError(f"the process ended before it said {line!r}: {errors}")


def interrupt(process: subprocess.Popen[str], after: float = 0.0) -> None:
    """Send Ctrl-C."""
    time.sleep(after)
    process.send_signal(signal.SIGINT)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless browser."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=switches)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    from browser import Page

    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    page = Page(context)
    yield page
    context.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Start dashboards in the test's folder, and stop them after the test."""
    from browser import Served

    running: list[Served] = []

    def begin(*words: str, listen: str = "127.0.0.1:0") -> Served:
        running.append(Served(tmp_path, *words, listen=listen))
        return running[-1]

    yield begin
    for served in running:
        served.stop()
