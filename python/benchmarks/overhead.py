"""Measures the time of ask and tell from Python, and of importing the package.

    python benchmarks/overhead.py

The strategy is random, so almost all of the time is spent in the binding, the trial record and the in-memory storage.
This time is an upper bound on the overhead of Python per trial. For comparison, the time of `log-ei` includes its queries
in Rust.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import fedbo


def milliseconds(strategy: str, n_trials: int, repeats: int = 7) -> float:
    """Return the median time of ask and tell per trial over several studies, in milliseconds."""
    times = []
    for seed in range(repeats):
        space = {"x": fedbo.Float(0, 1), "y": fedbo.Float(1e-5, 1, log=True), "c": ["a", "b", "c"]}
        study = fedbo.Study("timed", space, direction="minimize", strategy=strategy, seed=seed)
        began = time.perf_counter()
        for _ in range(n_trials):
            trial = study.ask()
            study.tell(trial, float(trial["x"]))
        times.append((time.perf_counter() - began) / n_trials * 1e3)
    return statistics.median(times)


def import_milliseconds(repeats: int = 7) -> float:
    """Return the median time of `import fedbo` over several processes, in milliseconds."""
    script = "import time; t = time.perf_counter(); import fedbo; print((time.perf_counter() - t) * 1e3)"
    runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in range(repeats)]
    return statistics.median(float(run.stdout) for run in runs)


if __name__ == "__main__":
    print(f"ask and tell at random, 500 trials   {milliseconds('random', 500):8.3f} ms a trial")
    print(f"ask and tell by log-ei, 50 trials    {milliseconds('log-ei', 50):8.3f} ms a trial")
    print(f"import fedbo                         {import_milliseconds():8.1f} ms")
