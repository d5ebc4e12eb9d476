"""Workers of ``fedbo serve``: evaluations, network failures and kills."""

from __future__ import annotations

import contextlib
import http.server
import json
import logging
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fedbo
import pytest
from conftest import Run, Start, environment, interrupt, wait_for_line

ROOT = Path(__file__).parents[2]

STUDY = """
[study]
name = "served"
direction = "minimize"
trials = {trials}
seed = 5
storage = "sqlite:served.db"
[strategy]
name = "{strategy}"
[space.x]
type = "float"
low = -1.0
high = 2.0
[space.kind]
type = "categorical"
choices = ["a", "b", 3]
{more}
"""


def loss(trial: Any) -> float:
    return float((trial["x"] - 0.5) ** 2 + (trial["kind"] == "a"))


class Served:
    """A running server in a folder."""

    def __init__(self, folder: Path, *words: str, listen: str = "127.0.0.1:0") -> None:
        command = [sys.executable, "-m", "fedbo", "serve", "study.toml", "--listen", listen, "--json", *words]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        said = json.loads(line)
        self.url: str = said["url"]
        self.address = self.url.split("://")[1]
        self.token: str = said["token"] or (folder / "token").read_text()

    def worker(self, **options: Any) -> fedbo.Worker:
        return fedbo.Worker(self.url, self.token, **options)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start servers of a study in the test's folder, and stop them after the test."""
    running: list[Served] = []

    def start(
        *words: str, trials: int = 6, strategy: str = "random", more: str = "", listen: str = "127.0.0.1:0"
    ) -> Served:
        (tmp_path / "study.toml").write_text(STUDY.format(trials=trials, strategy=strategy, more=more))
        running.append(Served(tmp_path, *words, listen=listen))
        return running[-1]

    yield start
    for served in running:
        served.stop()


def told(tmp_path: Path) -> list[fedbo.Trial]:
    return fedbo.Study.load(f"sqlite:{tmp_path / 'served.db'}").trials


def test_a_worker_evaluates_the_trials_of_a_study_in_this_process(
    begin: Callable[..., Served], tmp_path: Path
) -> None:
    served = begin(trials=12, strategy="log-ei")
    report = served.worker().run(loss)
    assert (report.told, report.failed, report.ended) == (12, 0, "full") and "all its 12 trials" in report.reason
    assert served.stop() == 0
    (tmp_path / "here").mkdir()
    file = tmp_path / "here" / "study.toml"
    file.write_text((tmp_path / "study.toml").read_text())
    here = fedbo.Study.from_file(file)
    here.optimize(loss, n_trials=12)
    bits = [(trial.params, trial.value, trial.source) for trial in here.trials]
    assert [(trial.params, trial.value, trial.source) for trial in told(tmp_path)] == bits


def test_failures_are_told_with_their_reasons(begin: Callable[..., Served], tmp_path: Path) -> None:
    served = begin(trials=4)
    ends: list[Any] = [0.5, ValueError("no convergence"), math.nan, "text"]

    def function(trial: fedbo.WorkerTrial) -> float:
        end = ends[trial.number]
        if isinstance(end, Exception):
            raise end
        return end  # type: ignore[no-any-return]

    report = served.worker().run(function)
    assert (report.told, report.failed) == (4, 3)
    trials = told(tmp_path)
    assert [trial.state for trial in trials] == ["complete", "failed", "failed", "failed"]
    messages = [trial.message or "" for trial in trials]
    for part, message in zip(["ValueError: no convergence", "nan", "'text'"], messages[1:], strict=True):
        assert part in message


class _Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (ValueError("half \ud83d of a character"), r"ValueError: half \ud83d of a character"),
        (ValueError("\U0001f600" * 8000), "ValueError: " + "\U0001f600" * 3000),
        (ValueError("\0" * 9000), "ValueError: " + "\0" * 7000),
        (_Mute(), "_Mute (its text"),
    ],
    ids=["half", "wide", "control", "mute"],
)
def test_no_text_of_an_exception_ends_a_worker(
    begin: Callable[..., Served], tmp_path: Path, caplog: pytest.LogCaptureFixture, error: Exception, begins: str
) -> None:
    """The test fails if a message that is not UTF-8, is too long as JSON or cannot be formatted ends the worker instead of the trial."""
    # Log records are passed between the processes of the tests, where a lone surrogate would be an error.
    caplog.set_level(logging.CRITICAL, logger="fedbo")
    served = begin(trials=1)

    def function(trial: fedbo.WorkerTrial) -> float:
        raise error

    report = served.worker().run(function)
    assert (report.told, report.failed, report.ended) == (1, 1, "full")
    assert (told(tmp_path)[0].message or "").startswith(begins)


def test_a_report_that_is_refused_gives_the_trial_back(begin: Callable[..., Served]) -> None:
    served = begin(trials=1, more='[early_stopping]\nrule = "median"\nepochs = 9')
    with pytest.raises(fedbo.ServeError) as refused:
        served.worker().run(lambda trial: float(trial.report(10, 0.5)))
    assert refused.value.code == "bad-request"
    trials = served.worker().study()["trials"]
    assert (trials["waiting"], trials["running"]) == (1, 0)


def test_calls_one_by_one(begin: Callable[..., Served]) -> None:
    served = begin(trials=2)
    worker, other = served.worker(name="a"), served.worker(name="b")
    first, second = worker.ask(), worker.ask()
    assert isinstance(first, fedbo.WorkerTrial) and isinstance(second, fedbo.WorkerTrial)
    assert (first.number, second.number) == (0, 1)
    with pytest.raises(fedbo.ServeError) as none_free:
        other.ask(wait_s=0)
    assert none_free.value.code == "wait"
    worker.renew(first)
    worker.tell(first, 1.0)
    worker.tell(first, 1.0)
    with pytest.raises(fedbo.ServeError, match="stays") as otherwise:
        worker.tell(first, 2.0)
    assert (otherwise.value.code, otherwise.value.stored) == ("told-otherwise", {"value": 1.0})
    with pytest.raises(fedbo.ServeError) as not_held:
        other.tell(second, 2.0)
    assert not_held.value.code == "not-held"
    worker.release(second)
    again = other.ask()
    assert isinstance(again, fedbo.WorkerTrial) and again.number == 1 and again.params == second.params
    other.tell(again, failed="spilled")
    assert worker.ask() == "full"
    assert worker.study()["trials"] == {"complete": 1, "failed": 1, "stopped": 0, "running": 0, "waiting": 0}


def test_reports_stop_a_training(begin: Callable[..., Served], tmp_path: Path) -> None:
    rule = '[early_stopping]\nrule = "median"\nepochs = 9\ntrials_min = 2\nwarmup_epochs = 1'
    served = begin(trials=8, more=rule)
    trained: dict[int, int] = {}

    def train(trial: fedbo.WorkerTrial) -> float:
        assert trial.epochs == 9
        value = 9.0 if trial.number == 5 else 1.0 - trial.number / 10
        for epoch in range(1, 10):
            trained[trial.number] = epoch
            if trial.report(epoch, math.nan if trial.number == 6 else value):
                break
        return value

    report = served.worker().run(train)
    trials = told(tmp_path)
    assert trials[5].state == "stopped" and trained[5] < 9
    assert trials[6].state == "failed" and trained[6] == 1 and "nan" in (trials[6].message or "")
    assert report.told == 8 and report.stopped == sum(trial.state == "stopped" for trial in trials) + 1


def test_a_lease_is_renewed_while_a_function_runs(begin: Callable[..., Served]) -> None:
    served = begin(trials=1)
    slow, quick = served.worker(name="slow", lease_s=1.0), served.worker(name="quick", lease_s=1.0)
    begun = threading.Event()

    def function(trial: fedbo.WorkerTrial) -> float:
        begun.set()
        time.sleep(3.5)
        return 1.0

    reports: list[fedbo.WorkerReport] = []
    thread = threading.Thread(target=lambda: reports.append(slow.run(function)))
    thread.start()
    begun.wait(10)
    assert quick.ask() == "full", "it waits, and gets no trial"
    thread.join()
    assert (reports[0].told, reports[0].lost) == (1, 0)


def test_a_lease_that_is_not_renewed_is_lost_to_another(begin: Callable[..., Served], tmp_path: Path) -> None:
    served = begin(trials=1)
    gone, next_one = served.worker(name="gone", lease_s=1.0), served.worker(name="next", lease_s=60.0)

    def function(trial: fedbo.WorkerTrial) -> float:
        time.sleep(2.0)
        assert next_one.run(lambda _: 7.0).told == 1
        return 1.0

    # Leases are not renewed, as on a disconnected machine.
    gone.holding = lambda trial: contextlib.nullcontext()  # type: ignore[method-assign]
    report = gone.run(function)
    assert (report.told, report.lost, report.ended) == (0, 1, "full")
    assert [trial.value for trial in told(tmp_path)] == [7.0]


def test_an_answer_that_is_lost_for_longer_than_the_lease_costs_one_trial_and_no_worker(
    begin: Callable[..., Served], tmp_path: Path
) -> None:
    """The test fails if a worker stops because another worker has the trial of its nonce."""
    served = begin(trials=2)
    cut_off, other = served.worker(name="cut-off", lease_s=1.0), served.worker(name="other")
    once, lost = cut_off._once, []

    def lossy(path: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        answer = once(path, body, timeout)
        if lost:
            return answer
        lost.append(answer["number"])
        time.sleep(1.2)
        assert other.run(lambda _: 7.0, n_trials=1).told == 1
        raise fedbo.ServeError("unreachable", "the answer is lost")

    cut_off._once = lossy  # type: ignore[method-assign]
    report = cut_off.run(lambda _: 1.0)
    assert (report.told, report.lost, report.ended, lost) == (1, 0, "full", [0])
    assert [trial.value for trial in told(tmp_path)] == [7.0, 1.0]


@pytest.mark.parametrize("n_hanging", [1, 1000])
def test_renewals_that_hang_cost_neither_the_lease_nor_the_end(begin: Callable[..., Served], n_hanging: int) -> None:
    """The test fails if a single renewal without a response loses the trial, or if the renewal thread outlives the trial."""
    served = begin(trials=1)
    worker = served.worker(lease_s=2.4)
    once, hanging = worker._once, []

    def hangs(path: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        if not path.endswith("/renew") or len(hanging) >= n_hanging:
            return once(path, body, timeout)
        hanging.append(timeout)
        time.sleep(timeout)
        raise fedbo.ServeError("unreachable", "no answer")

    worker._once = hangs  # type: ignore[method-assign]
    trial = worker.ask()
    assert isinstance(trial, fedbo.WorkerTrial)
    with worker.holding(trial):
        time.sleep(3.6 if n_hanging == 1 else 1.0)
    assert not any("fedbo-lease" in thread.name for thread in threading.enumerate())
    assert hanging and max(hanging) <= 0.81
    if n_hanging == 1:
        with pytest.raises(fedbo.ServeError) as still_held:
            served.worker().ask(wait_s=0)
        assert still_held.value.code == "wait"
    worker.tell(trial, 1.0)


def test_a_server_that_hangs_is_given_up_after_the_patience() -> None:
    """The test fails if a request without a response takes longer than ``patience_s``, because Ctrl-C would take equally long."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        worker = fedbo.Worker(f"http://127.0.0.1:{silent.getsockname()[1]}", "t" * 32, patience_s=1.0)
        began = time.monotonic()
        with pytest.raises(fedbo.ServeError) as unreachable:
            worker.ask()
        assert unreachable.value.code == "unreachable" and time.monotonic() - began < 5


def test_a_server_that_is_killed_and_started_again_loses_nothing(begin: Callable[..., Served], tmp_path: Path) -> None:
    first = begin("--token-file", "token", trials=60)
    worker = first.worker()
    reports: list[fedbo.WorkerReport] = []
    evaluated: list[int] = []

    def function(trial: fedbo.WorkerTrial) -> float:
        evaluated.append(trial.number)
        time.sleep(0.02)
        return loss(trial)

    thread = threading.Thread(target=lambda: reports.append(worker.run(function)))
    thread.start()
    for n_evaluated in (10, 25):
        while len(evaluated) < n_evaluated:
            time.sleep(0.005)
        first.kill()
        time.sleep(0.3)
        first = begin("--token-file", "token", trials=60, listen=first.address)
    thread.join(60)
    assert reports[0].told == 60 and reports[0].lost == 0
    assert evaluated == list(range(60)), "no trial is evaluated twice, none is left out"
    assert [trial.value for trial in told(tmp_path)] == [loss(trial.params) for trial in told(tmp_path)]


def test_ctrl_c_gives_the_trial_back(begin: Callable[..., Served], start: Start) -> None:
    served = begin(trials=5)
    script = start(f"""
        import time
        import fedbo

        def function(trial):
            print("begun", flush=True)
            time.sleep(60)

        fedbo.Worker({served.url!r}, {served.token!r}).run(function)
    """)
    wait_for_line(script, "begun")
    interrupt(script)
    _, errors = script.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert "interrupted: finished trials are told, and the running one is released" in errors
    trials = served.worker().study()["trials"]
    assert (trials["waiting"], trials["running"]) == (1, 0)


def test_many_workers_share_a_study(begin: Callable[..., Served], tmp_path: Path) -> None:
    served = begin(trials=80)
    reports: list[fedbo.WorkerReport] = []
    workers = [threading.Thread(target=lambda: reports.append(served.worker().run(loss))) for _ in range(16)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join(60)
    assert sum(report.told for report in reports) == 80 and not any(report.lost for report in reports)
    assert len({str(trial.params) for trial in told(tmp_path)}) == 80


def test_https_is_checked(begin: Callable[..., Served], program: Run, tmp_path: Path) -> None:
    program("dev", "certs", "127.0.0.1")
    certs = tmp_path / "certs"
    words = ["--tls-cert", "certs/cert.pem", "--tls-key", "certs/key.pem", "--token-file", "token"]
    served = begin(*words, trials=3)
    assert served.url.startswith("https://")
    assert served.worker(ca=certs / "ca.pem").run(loss).told == 3
    began = time.monotonic()
    with pytest.raises(fedbo.ServeError, match=r"name its authority") as untrusted:
        served.worker().ask()
    assert untrusted.value.code == "untrusted" and time.monotonic() - began < 10, "it is not asked again"


def test_a_wrong_token_and_an_absent_server_are_errors(begin: Callable[..., Served]) -> None:
    served = begin()
    with pytest.raises(fedbo.ServeError, match="token") as unauthorized:
        fedbo.Worker(served.url, "x" * 32).ask()
    assert unauthorized.value.code == "unauthorized"
    assert served.stop() == 0
    with pytest.raises(fedbo.ServeError, match="does not respond") as absent:
        served.worker(patience_s=0.5).ask()
    assert absent.value.code == "unreachable"
    for url, token in (("db.example.org", "t"), ("http://127.0.0.1:1", " ")):
        with pytest.raises(fedbo.Error):
            fedbo.Worker(url, token)


@pytest.mark.parametrize("token", ["secret\nX-Other: 1", "secret second", "secret\x7f", "sécret"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_said(token: str) -> None:
    with pytest.raises(fedbo.Error, match="--token-file") as refused:
        fedbo.Worker("http://127.0.0.1:1", token)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://10.1.2.3:7436", "http://lab.example.org", "http://127.0.0.1.example.org", "http://127.0.0.1@lab.example.org:80"]
)
def test_a_token_goes_to_another_machine_by_https_alone(url: str) -> None:
    with pytest.raises(fedbo.Error, match="over http anybody on the network path can read the token; use https") as refused:
        fedbo.Worker(url, token="secret")
    assert "secret" not in str(refused.value)
    fedbo.Worker(url, token="secret", allow_plain_http=True)
    fedbo.Worker(url.replace("http:", "https:"), token="secret")


@pytest.mark.parametrize("url", ["http://127.0.0.1:7436", "http://127.9.9.9:7436", "http://localhost:7436", "http://[::1]:7436"])
def test_a_token_goes_to_this_machine_by_http_too(url: str) -> None:
    fedbo.Worker(url, token="secret")


@pytest.mark.parametrize(
    ("listed", "host", "port", "expected"),
    [
        ("*", "a.org", 443, True),
        ("a.org", "x.A.org", 443, True),
        (".a.org", "a.org", 443, True),
        ("a.org", "ba.org", 443, False),
        ("a.org", "a.org.evil.net", 443, False),
        ("b.org, a.org", "a.org", 443, True),
        ("a.org:8443", "a.org", 8443, True),
        ("a.org:8443", "a.org", 443, False),
        ("10.0.0.0/8", "10.255.0.1", 443, True),
        ("10.0.0.0/8", "11.0.0.1", 443, False),
        ("10.0.0.0/33", "10.0.0.1", 443, False),
        ("10.0.0.0/8", "ten.org", 443, False),
        ("fd00::/8", "fd12:3456::1", 443, True),
        ("192.168.*", "192.168.4.1", 443, True),
        ("", "a.org", 443, False),
        ("", "127.0.0.1", 80, True),
        ("", "localhost", 80, True),
        ("", "coordinator.localhost", 80, True),
        ("", "::1", 80, True),
        ("", "127.0.0.1.example.org", 80, False),
    ],
)
def test_a_proxy_is_used_except_for_this_machine_and_what_no_proxy_lists(
    monkeypatch: pytest.MonkeyPatch, listed: str, host: str, port: int, expected: bool
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "ALL_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example.org:3128")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    monkeypatch.setenv("NO_PROXY", listed)
    proxies = fedbo._worker._proxies(host, port)
    assert proxies == ({} if expected else {scheme: "http://proxy.example.org:3128" for scheme in ("http", "https")})


def test_a_worker_on_this_machine_sends_nothing_to_a_proxy(begin: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    served = begin()
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(0.2)
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert served.worker().study()["trials"]["waiting"] == 0
        with pytest.raises(TimeoutError):
            proxy.accept()


def test_refusals_that_pass_and_answers_that_break_off_are_repeated_with_the_same_nonce() -> None:
    """The test fails if a request is not retried, or is retried with another nonce, which would take a second trial."""
    nonces: list[str] = []

    class Flaky(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            nonces.append(body["nonce"])
            n = len(nonces)
            if n == 1:
                self.close_connection = True  # no response at all
                return
            if n == 2:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{")  # a truncated response
                self.close_connection = True
                return
            status, answer = {
                3: (429, {"code": "busy", "message": "later"}),
                4: (503, "a proxy's page"),
                5: (302, "elsewhere"),
            }.get(n, (200, {"status": "full", "reason": "done"}))
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Flaky) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        worker = fedbo.Worker(f"http://127.0.0.1:{server.server_port}", "t" * 32, patience_s=20)
        with pytest.raises(fedbo.ServeError) as moved:
            worker.ask()
        assert moved.value.code == "bad-answer" and len(nonces) == 5 and len(set(nonces)) == 1
        assert worker.ask() == "full"
        server.shutdown()


def test_the_file_alone_is_a_worker(begin: Callable[..., Served], tmp_path: Path) -> None:
    served = begin(trials=3)
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(ROOT / "python/fedbo/_worker.py", alone / "fedbo_worker.py")
    script = "import sys, fedbo_worker as w; assert 'fedbo' not in sys.modules; print(w.Worker(sys.argv[1]).run(lambda t: t['x']).told)"
    environ = {"PATH": os.environ["PATH"], "FEDBO_WORKER_TOKEN": served.token}
    # -S excludes installed packages, and thus fedbo.
    command = [sys.executable, "-S", "-c", script, served.url]
    ran = subprocess.run(command, cwd=alone, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.strip() == "3", ran.stderr


def test_the_worker_of_the_documentation_runs_in_python(
    begin: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
    code = text.split("```py\n")[1].split("```")[0]
    served = begin("--token-file", "token", trials=3)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(code.replace("http://127.0.0.1:7436", served.url), scope)
    assert (scope["done"].told, scope["done"].ended) == (3, "full")


def test_the_worker_of_the_documentation_runs_in_a_shell(begin: Callable[..., Served], tmp_path: Path) -> None:
    if not all(shutil.which(name) for name in ("curl", "jq", "awk")):
        pytest.skip("curl, jq or awk is not installed")
    text = (ROOT / "docs/serve.md").read_text(encoding="utf-8")
    script = text.split("```sh\n#!/bin/sh\n")[1].split("```")[0]
    served = begin(trials=4)
    recorder = tmp_path / "bin" / "curl"
    recorder.parent.mkdir()
    recorder.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/requests"\nexec {shutil.which("curl")} "$@"\n')
    recorder.chmod(0o755)
    environ = {**os.environ, "FEDBO_URL": served.url, "FEDBO_WORKER_TOKEN": served.token}
    environ["PATH"] = f"{recorder.parent}:{environ['PATH']}"
    command = ["sh", "-c", script, "sh", "shell"]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert [trial.value for trial in told(tmp_path)] == [(trial["x"] - 0.5) ** 2 for trial in told(tmp_path)]
    # A name derived from the process id could recur in a new container.
    nonces = re.findall(r'"nonce": "([^"]*)"', (tmp_path / "requests").read_text())
    assert len(set(nonces)) == 5 and all(re.fullmatch("[0-9a-f]{16}", nonce) for nonce in nonces)
