"""The examples in docs/python-integrations.md run unchanged, and errors name missing packages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python-integrations.md"
EXAMPLES = re.findall(r"```py(?:thon)?\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
NEEDS = {
    "fedbo.integrations.mlflow": "mlflow",
    "ray import": "ray",
    "import optuna": "optuna",
    "from sklearn": "sklearn",
    "from dask.distributed": "distributed",
    "import submitit": "submitit",
}


def package(example: str) -> str:
    return next(name for line, name in NEEDS.items() if line in example)


def test_there_are_examples_of_each() -> None:
    assert {package(example) for example in EXAMPLES} == set(NEEDS.values())


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(example, id=f"{package(example)}-{place}", marks=[pytest.mark.ray] if package(example) == "ray" else [])
        for place, example in enumerate(EXAMPLES)
    ],
)
def test_example(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(package(example))
    # Keep the examples' files and Ray's results in a separate folder.
    for name, value in {
        "HOME": str(tmp_path),
        "RAY_AUTH_MODE": "disabled",
        "RAY_raylet_start_wait_time_s": "300",
    }.items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["optuna", "ray", "sklearn"])
def test_a_missing_package_names_the_extra(package: str) -> None:
    program = """
import sys

package = sys.argv[1]

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
try:
    __import__(f"fedbo.integrations.{package}")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, package], capture_output=True, text=True, check=True)
    assert f'pip install "fedbo[{package}]"' in done.stdout
