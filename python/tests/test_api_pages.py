"""The reference pages of the package, as written by ``cargo xtask docs``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fedbo
import pytest

ROOT = Path(__file__).parents[2]


def pages_of(package: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools/xtask/python_api.py"), str(package), str(into)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_public_name_has_its_part_of_a_page(tmp_path: Path) -> None:
    done = pages_of(ROOT / "python/fedbo", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "fedbo.md").read_text(encoding="utf-8")
    for name in fedbo.__all__:
        if not name.startswith("__"):
            assert f"\n## {name}\n" in page or f"[`fedbo.{name}`]" in page, name
    assert "### Study.optimize" in page and "- `n_trials`: Total number of" in page


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ('"""A package."""\n\ndef f(x: int) -> int:\n    return x\n', "f is public and has no docstring"),
        ('"""A package."""\n__all__ = ["g"]\n', "g is public and its definition is not found"),
        ("x = 1\n", "has no docstring"),
    ],
)
def test_a_name_without_documentation_is_an_error(tmp_path: Path, source: str, error: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text(source, encoding="utf-8")
    done = pages_of(package, tmp_path / "pages")
    assert done.returncode != 0 and error in done.stderr
