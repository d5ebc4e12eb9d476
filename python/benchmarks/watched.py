"""Measures the slowdown of a study that is watched by dashboard pages.

    python benchmarks/watched.py

`fedbo tune` runs pairs of studies with equal seeds: one alone, and one with `fedbo dashboard` and two clients that read
its event stream like a page. Prints the ratio of their times with a 95 % interval over pairs. On a machine with
two processors, the dashboard, the readers and the objective's command share them with the study, as on a user's machine.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

PAIRS = 12
STUDY = """
[study]
name = "watched"
direction = "minimize"
trials = 60
seed = 1
storage = "sqlite:study.db"
[objective]
command = ["sh", "-c", "sleep 0.02; echo $1", "sh", "{x}"]
"""
PARAMETER = '[space.{name}]\ntype = "float"\nlow = 0.0\nhigh = 1.0\n'
# The .975 quantile of Student's distribution with eleven degrees of freedom.
QUANTILE = 2.201


def fedbo(*words: str) -> list[str]:
    return [sys.executable, "-m", "fedbo", *words]


def read(url: str, base: str) -> None:
    """Read events like a browser until the server stops."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    try:
        opener.open(url).read()
        while True:
            studies = json.load(opener.open(f"{base}api/studies"))["studies"]
            if studies:
                break
            time.sleep(0.1)
        for _ in opener.open(f"{base}api/studies/{studies[0]['id']}/events"):
            pass
    except OSError:
        return


def seconds(is_watched: bool) -> float:
    """Run one study and return its duration in seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        space = "".join(PARAMETER.format(name=parameter) for parameter in "xyz")
        (folder / "study.toml").write_text(STUDY + space)
        watching = None
        if is_watched:
            words = fedbo("dashboard", "study.toml", "--listen", "127.0.0.1:0", "--no-open", "--json")
            watching = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert watching.stdout is not None
            url = json.loads(watching.stdout.readline())["url"]
            for _ in range(2):
                threading.Thread(target=read, args=(url, url.split("?")[0]), daemon=True).start()
        began = time.perf_counter()
        subprocess.run(fedbo("tune", "study.toml", "--quiet"), cwd=folder, check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - began
        if watching is not None:
            watching.kill()
            watching.wait()
        return took


if __name__ == "__main__":
    seconds(False)
    logs, alone = [], []
    for pair in range(PAIRS):
        order = [False, True] if pair % 2 == 0 else [True, False]
        times = {is_watched: seconds(is_watched) for is_watched in order}
        logs.append(math.log(times[True] / times[False]))
        alone.append(times[False])
    half = QUANTILE * statistics.stdev(logs) / math.sqrt(PAIRS)
    mean = statistics.mean(logs)
    low, high = math.exp(mean - half), math.exp(mean + half)
    print(f"60 trials of 20 ms alone: {statistics.median(alone):.2f} s")
    print(f"watched by two pages, ratio of times over {PAIRS} pairs: {math.exp(mean):.3f} (95 % from {low:.3f} to {high:.3f})")
