"""The examples in docstrings and documentation pages run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import fedbo

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for page in [*PROJECT.glob("docs/*.md"), PROJECT / "python" / "README.md"]
    if "```python\n" in page.read_text()
)


def modules() -> list[str]:
    """Return the modules that do not need optional packages."""
    return [f"fedbo.{module.name}" for module in pkgutil.iter_modules(fedbo.__path__) if module.name not in ("_fedbo", "__main__")]


@pytest.mark.parametrize("name", ["fedbo", *modules()])
def test_examples_of_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name), extraglobs={"fedbo": fedbo})
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_pages(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert blocks
    scope: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), scope)
