"""``fedbo dashboard`` in a real browser: every page on real trials, live, by keyboard, for a screen reader, and when it breaks."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fedbo
from conftest import Run, environment

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=document.title='taken'>"


class Served:
    """A dashboard that runs."""

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


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts dashboards in the test's folder; they end with the test."""
    running: list[Served] = []

    def begin(*words: str, listen: str = "127.0.0.1:0") -> Served:
        running.append(Served(tmp_path, *words, listen=listen))
        return running[-1]

    yield begin
    for served in running:
        served.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    switches = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=switches)
        yield browser
        browser.close()


class Page:
    """A page, with what went wrong on it."""

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


@pytest.fixture
def page(chromium: Any) -> Iterator[Page]:
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    page = Page(context)
    yield page
    context.close()


def tuned(folder: Path, trials: int = 30, name: str = "kiln") -> fedbo.Study:
    """A study of which some trials fail with words that a page must not take for its own."""

    def objective(trial: fedbo.Trial) -> float:
        if trial["glaze"] == HOSTILE:
            raise ValueError(HOSTILE + "x" * 500)
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


def shown(page: Any) -> str:
    return str(page.inner_text("main"))


def wait_for_text(page: Any, text: str, seconds: float = 20) -> None:
    page.wait_for_function("text => document.body.innerText.includes(text)", arg=text, timeout=1000 * seconds)


def test_pages_show_a_study_and_take_no_text_for_markup(tmp_path: Path, serve: Callable[..., Served], page: Page) -> None:
    study = tuned(tmp_path)
    served = serve("sqlite:kiln.db")
    shows = page.open(served.url, "tbody a")
    assert "token" not in shows.url
    shows.click("tbody a")
    shows.wait_for_selector(".uplot canvas")
    wait_for_text(shows, "30")
    assert study.best_trial is not None
    assert f"(trial {study.best_trial.number})" in shown(shows)
    failed = [trial for trial in study.trials if trial.state == "failed"]
    assert failed
    assert HOSTILE in shown(shows)
    shows.select_option(".trials select", "failed")
    assert f"{len(failed)} trials" in shown(shows)
    shows.click(".trials tbody th a")
    shows.wait_for_selector("pre")
    assert HOSTILE in shows.inner_text("pre")
    # The address holds the view.
    again = Page(shows.context)
    again.open(shows.url, "pre")
    assert f"{len(failed)} trials" in shown(again.page)
    shows.click("text=Compute")
    wait_for_text(shows, "light is better")
    shows.hover("[aria-label='model over two parameters'] canvas")
    wait_for_text(shows, " ± ")
    shows.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert shows.title() == "fedbo: kiln"
    assert not shows.query_selector("main img[onerror]")
    assert (page.faults, again.faults) == ([], [])
    assert page.hosts == {served.base.split("/")[2]}


def test_trials_appear_while_a_study_runs_and_after_the_server_was_gone(
    tmp_path: Path, serve: Callable[..., Served], page: Page
) -> None:
    study = tuned(tmp_path, trials=5)
    served = serve("sqlite:kiln.db")
    page.open(served.url, "tbody a").click("tbody a")
    shows = page.page
    wait_for_text(shows, "trials told\n5")
    began = time.monotonic()
    study.enqueue({"heat": 0.25, "glaze": "matt"})
    asked = study.ask()
    wait_for_text(shows, "by hand", 10)
    study.tell(asked, 0.001)
    wait_for_text(shows, "trials told\n6", 10)
    assert time.monotonic() - began < 20
    assert "0.001" in shown(shows)
    address = served.base.split("/")[2]
    served.stop()
    wait_for_text(shows, "trying again")
    study.tell(study.ask(), 0.5)
    # The token is a new one: whoever has the old one is told what to do.
    served = serve("sqlite:kiln.db", listen=address)
    assert served.base.split("/")[2] == address
    again = Page(shows.context)
    again.open(served.url, "tbody a")
    wait_for_text(shows, "trials told\n7", 40)


def test_what_is_wrong_is_said(tmp_path: Path, serve: Callable[..., Served], page: Page) -> None:
    tuned(tmp_path, trials=3)
    served = serve("sqlite:kiln.db")
    shows = page.page
    shows.goto(served.base)
    assert "with its token" in shows.inner_text("body")
    page.open(served.url, "tbody a")
    shows.goto(f"{served.base}?study=0-99")
    wait_for_text(shows, "there is no study")
    results(tmp_path, 1, 1).joinpath("results.csv").write_text("a,b\n")
    broken = serve("results")
    shows.goto(broken.url)
    shows.click("text=many")
    wait_for_text(shows, "expected the column")
    (tmp_path / "kiln.db").write_bytes(b"this is no database" * 100)
    fresh = serve("sqlite:kiln.db")
    shows.goto(fresh.url)
    shows.wait_for_selector(".note")
    assert "kiln.db" in shown(shows)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_can_be_read_by_everybody(
    tmp_path: Path, serve: Callable[..., Served], chromium: Any, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tuned(tmp_path)
    results(tmp_path, 4, 12)
    served = serve("sqlite:kiln.db", "results")
    context = chromium.new_context(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    page = Page(context)
    study = f"{served.base}?study=0-1"
    for address in (served.url, f"{served.base}?folder=0-many&agent=lab+1", study, f"{study}&trial=7"):
        shows = page.open(address, "tbody tr")
        if "?" in address.removeprefix(served.url):
            shows.wait_for_selector(".uplot")
        found = axe.run(shows)
        assert found.violations_count == 0, found.generate_report()
        # Nothing but tables is wider than a phone, and those scroll by themselves.
        assert shows.evaluate("document.documentElement.scrollWidth") == 360
    # Everything can be reached by keyboard.
    shows.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(200):
        shows.keyboard.press("Tab")
        reached.add(shows.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
    for what in ("skip", "brand", "checkbox", "select", "search", "<a href"):
        assert any(what in each for each in reached), (what, reached)
    context.close()


def results(folder: Path, agents: int, rounds: int) -> Path:
    """Results of two arms, as ``fedbo run`` writes them."""
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


def test_a_run_is_shown_with_its_agents_and_grows(tmp_path: Path, serve: Callable[..., Served], page: Page) -> None:
    target = results(tmp_path, 4, 12)
    with (target / "results.csv").open("a") as file:
        file.write(f"many,fts,lab 3,0,13,own,0.5,,0.2,,0.1,failed: {HOSTILE}\n")
    served = serve(".")
    shows = page.open(served.url, "tbody a")
    shows.click("text=many")
    shows.wait_for_selector(".uplot")
    wait_for_text(shows, "3: lab 0, lab 1, lab 2")
    assert HOSTILE in shown(shows)
    # 4 agents, 12 rounds: a third of the queries follow others.
    cells = [row.inner_text() for row in shows.query_selector_all("[aria-label='agents'] tbody tr td:nth-child(4)")]
    assert sum(int(cell) for cell in cells) == 16
    shows.click("button.link >> text=lab 2")
    wait_for_text(shows, "message:lab 0")
    assert "agent=lab" in shows.url
    with (target / "results.csv").open("a") as file:
        file.write("many,fts,lab 2,0,13,message:lab 1,0.5,0.01,0.01,,0.1,ok\n")
    wait_for_text(shows, "message:lab 1")
    shows.select_option("select >> nth=1", "ts")
    wait_for_text(shows, "behind\nnobody")
    assert "arm=ts" in shows.url
    (target / "results.csv").write_text("experiment,arm,agent,run,iteration,source,x,value,best,regret,ask_seconds,status\n")
    wait_for_text(shows, "rows\n0", 30)
    assert page.faults == []


def test_a_thousand_agents_and_a_hundred_rounds_are_shown_at_once(
    tmp_path: Path, serve: Callable[..., Served], page: Page
) -> None:
    results(tmp_path, 1000, 100)
    served = serve("results")
    page.open(served.url, "tbody a")
    began = time.monotonic()
    shows = page.open(f"{served.base}?folder=0-many", "main h1")
    painted = shows.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    wait_for_text(shows, "agents\n1000", 60)
    whole = time.monotonic() - began
    slowest = {}
    for what, script in {
        "point": "const c = document.querySelector('canvas.grid'), b = c.getBoundingClientRect();"
        "c.dispatchEvent(new MouseEvent('mousemove', {clientX: b.left + 30, clientY: b.top + 30}))",
        "agent": "document.querySelector('button.link').click()",
    }.items():
        slowest[what] = shows.evaluate(f"() => {{const t = performance.now(); {script}; document.body.offsetHeight; return performance.now() - t}}")
    print(json.dumps({"first paint ms": painted, "all shown s": whole, "interactions ms": slowest}))
    assert re.search(r"lab \d+, iteration \d+: ", shown(shows))
    assert max(painted, *slowest.values()) < 5000
    assert page.faults == []


SPACE = """
[study]
name = "many"
direction = "minimize"
trials = 10
[space.x]
type = "float"
low = 0.0
high = 1.0
[space.kind]
type = "categorical"
choices = ["a", "b"]
"""


def test_ten_thousand_trials_are_shown_at_once(
    tmp_path: Path, program: Run, serve: Callable[..., Served], page: Page
) -> None:
    (tmp_path / "space.toml").write_text(SPACE)
    table = "value,x,kind\n" + "".join(f"{(i * 37 % 10007) / 10007},{i / 10000},{'ab'[i % 2]}\n" for i in range(10_000))
    (tmp_path / "table.csv").write_text(table)
    program("import", "--space", "space.toml", "--storage", "sqlite:many.db", "--name", "many", "table.csv")
    served = serve("sqlite:many.db")
    page.open(served.url, "tbody a")
    shows = page.open(f"{served.base}?study=0-1", ".uplot")
    painted = shows.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    wait_for_text(shows, "trials told\n10000")
    slowest = {}
    for what, script in {
        "sort": "document.querySelector('.trials th button').click()",
        "next page": "document.querySelectorAll('.trials .tools button')[1].click()",
        "filter": "{const s = document.querySelector('.trials select'); s.value = 'complete'; s.dispatchEvent(new Event('change'))}",
        "find": "{const s = document.querySelector('input[type=search]'); s.value = '9'; s.dispatchEvent(new Event('input'))}",
        "logarithm": "document.querySelector('input[type=checkbox]').click()",
    }.items():
        slowest[what] = shows.evaluate(f"() => {{const t = performance.now(); {script}; document.body.offsetHeight; return performance.now() - t}}")
    print(json.dumps({"first paint ms": painted, "interactions ms": slowest}))
    # Far above what is measured (docs/dashboard.md): this fails where something hangs, not where a machine is busy.
    assert max(painted, *slowest.values()) < 5000
    assert re.search(r"page 1 of \d+", shown(shows))
    assert page.faults == []
