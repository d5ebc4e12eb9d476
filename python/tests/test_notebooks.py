"""The notebooks run from top to bottom."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before it is kept"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of the notebook client and its transport
        client = nbclient.NotebookClient(notebook, timeout=280, resources={"metadata": {"path": str(tmp_path)}})
        client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs
    assert not any(output.output_type == "stream" and output.name == "stderr" for output in outputs), outputs
    if folder := os.environ.get("FEDBO_NOTEBOOKS_OUT"):
        nbformat.write(notebook, Path(folder) / path.name)
