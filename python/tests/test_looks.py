"""Visual regression tests: screenshots of pages match the reference images in ``looks`` within a tolerance.

Folder names, times and hashes are masked first. Images that differ are written to the test's temporary files. After an intended change,
``FEDBO_KEEP_LOOKS=1 cargo xtask python -- -k looks`` stores the new images. Look at each of them before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import Image, ImageChops, ImageFilter

from browser import Page, Served, results, tuned
from conftest import Run

pytestmark = pytest.mark.browser

LOOKS = Path(__file__).parent / "looks"
# Reference images have half the size of the pages, to hide differences in font smoothing.
SCALE = 2
# Radius of the blur before the comparison, in pixels of a reference image: letters may move by one pixel.
BLUR = 3
# Maximum share of pixels that differ by more than STEP of 255. A changed colour or a missing part exceeds it.
SHARE, STEP = 0.001, 24

# Replaces text that differs between runs, and stops clocks.
STILL = """() => {
  for (let timer = 1; timer < 10000; timer += 1) clearInterval(timer);
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const changes = [[/\\b\\d+(\\.\\d+)? (ms|s|min|h|days)\\b( ago)?/g, "1 s"], [/\\d{1,2}\\/\\d{1,2}\\/\\d{4}, [\\d:]+ [AP]M/g, "then"],
    [/\\/tmp\\/\\S+/g, "here"], [/\\b[0-9a-f]{12}…/g, "0123456789ab…"], [/\\b[0-9a-f]{64}\\b/g, "0".repeat(64)],
    [/\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z/g, "then"], [/127\\.0\\.0\\.1:\\d+/g, "here"]];
  while (walk.nextNode()) {
    for (const [what, by] of changes) walk.currentNode.textContent = walk.currentNode.textContent.replace(what, by);
  }
  window.scrollTo(0, 0);
}"""

PRIVATE = """
[federation]
name = "kilns"
direction = "minimize"
algorithm = "dp-fts-de"
rounds = 6
initial = 2
seed = 4
[features]
count = 30
lengthscale = 0.3
[privacy]
epsilon = 6.0
releases = 4
[space.x]
type = "float"
low = -5.0
high = 5.0
"""


def look(page: Page, name: str, folder: Path, part: str | None = None) -> None:
    """Compare a page, or a part of it, with its reference image."""
    shows = page.page
    shows.wait_for_function("() => document.fonts.status === 'loaded' && [...document.images].every(image => image.complete)")
    shows.evaluate(STILL)
    taken = folder / f"{name}.png"
    if part is None:
        shows.screenshot(path=taken, full_page=True)
    else:
        shows.locator(part).screenshot(path=taken)
    now = Image.open(taken).convert("RGB")
    now = now.resize((now.width // SCALE, now.height // SCALE), Image.Resampling.LANCZOS)
    kept = LOOKS / f"{name}.png"
    if os.environ.get("FEDBO_KEEP_LOOKS") == "1":
        LOOKS.mkdir(exist_ok=True)
        now.quantize(256, kmeans=1).save(kept, optimize=True)
        return
    before = Image.open(kept).convert("RGB")
    assert abs(now.height - before.height) <= 0.01 * before.height, (name, now.size, before.size)
    size = (before.width, min(now.height, before.height))
    pair = [picture.crop((0, 0, *size)).filter(ImageFilter.GaussianBlur(BLUR)) for picture in (now, before)]
    difference = numpy.asarray(ImageChops.difference(*pair)).max(axis=2)
    share = float((difference > STEP).mean())
    assert share <= SHARE, f"{name}: {100 * share:.2f} % of its pixels differ; {taken} beside {kept}"


def window(chromium: Any, width: int, scheme: str) -> Any:
    return chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, locale="en-US")


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (360, "dark")])
def test_looks_of_studies_and_runs(
    tmp_path: Path, chromium: Any, serve: Callable[..., Served], width: int, scheme: str
) -> None:
    tuned(tmp_path, said="the glaze ran")
    results(tmp_path, 6, 12)
    served = serve("sqlite:kiln.db", "results")
    context = window(chromium, width, scheme)
    page = Page(context)
    for name, address, selector in [
        ("list", served.url, "tbody a"),
        ("study", f"{served.base}?study=0-1", ".uplot"),
        ("trial", f"{served.base}?study=0-1&trial=13", "section h2"),
        ("run", f"{served.base}?folder=0-many&agent=lab+1", ".uplot"),
    ]:
        page.open(address, selector)
        page.page.wait_for_load_state()
        page.page.wait_for_timeout(1500)
        look(page, f"{name}-{width}-{scheme}", tmp_path)
    assert page.faults == []
    context.close()


def test_looks_of_privacy(tmp_path: Path, chromium: Any, serve: Callable[..., Served], program: Run) -> None:
    agents = "".join(
        f'[[agents]]\nname = "kiln {agent}"\ncommand = ["awk", "-v", "x={{x}}", "BEGIN {{ print (x - {agent})^2 }}"]\n'
        for agent in range(6)
    )
    (tmp_path / "kilns.toml").write_text(PRIVATE + agents)
    program("run", "kilns.toml", "--quiet")
    served = serve("results")
    context = window(chromium, 1200, "light")
    page = Page(context)
    shows = page.open(served.url, "tbody a")
    shows.click("text=kilns")
    shows.wait_for_selector("[aria-label=privacy] .uplot")
    shows.click("text=Check the ledger")
    shows.wait_for_selector("text=The ledger is sound: 4 releases.")
    look(page, "privacy", tmp_path, "[aria-label=privacy]")
    assert page.faults == []
    context.close()
