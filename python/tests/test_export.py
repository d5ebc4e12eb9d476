"""Exports: Python writes the files of `fedbo export`, and their target programs read them."""

from __future__ import annotations

import csv
import json
import math
import struct
import sys
from pathlib import Path

import fedbo
import pytest
from fedbo._program import main


def _study(folder: Path) -> fedbo.Study:
    """Return a study with values, failures and stopped trials."""
    space = {"x": fedbo.Float(-2.0, 2.0), "kind": ["a", "b"]}
    study = fedbo.Study(
        "curves",
        space,
        direction="maximize",
        storage=f"sqlite:{folder}/curves.db",
        early_stopping={"epochs": 4, "rule": "median"},
        strategy="sobol",
        seed=3,
    )

    def train(trial: fedbo.Trial) -> float:
        if trial["x"] > 1.5:
            raise ValueError("too far")
        for epoch in range(1, 5):
            value = -(float(trial["x"]) ** 2) - 1 / epoch
            if trial.report(epoch, value):
                break
        return value

    study.optimize(train, n_trials=16)
    states = {trial.state for trial in study.trials}
    assert states == {"complete", "failed", "stopped"}
    return study


def _program(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fedbo", *arguments])
    with pytest.raises(SystemExit) as ended:
        sys.exit(main())
    return int(ended.value.code or 0)


def test_files_are_those_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = _study(tmp_path)
    for ending in ("csv", "json"):
        ours, theirs = tmp_path / f"ours.{ending}", tmp_path / f"theirs.{ending}"
        assert study.export(ours) == [ours]
        arguments = ("export", study.storage, "--format", ending, "--out", str(theirs))
        assert _program(monkeypatch, *arguments) == 0
        assert ours.read_bytes() == theirs.read_bytes()
    with (tmp_path / "ours.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["x"]) for row in rows] == [trial["x"] for trial in study.trials]
    document = json.loads((tmp_path / "ours.json").read_text())
    assert [trial["value"] for trial in document["trials"] if trial["state"] == "complete"] == [
        trial.value for trial in study.trials if trial.value is not None
    ]


def test_a_folder_without_an_ending_needs_its_form(tmp_path: Path) -> None:
    study = _study(tmp_path)
    with pytest.raises(fedbo.DefinitionError, match="unknown format"):
        study.export(tmp_path / "all")
    with pytest.raises(fedbo.DefinitionError, match="unknown format"):
        study.export(tmp_path / "all.csv", format="xml")  # type: ignore[arg-type]
    with pytest.raises(fedbo.Error, match="a file of the study itself"):
        study.export(tmp_path / "curves.db", format="csv")
    with pytest.raises(fedbo.Error, match="nowhere"):
        study.export(tmp_path / "nowhere" / "all.csv")
    assert len(study.trials) == 16


def test_tensorboard_reads_its_files(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    study = _study(tmp_path)
    files = study.export(tmp_path / "tb", format="tensorboard")
    reporting = [trial for trial in study.trials if trial.reports]
    assert files == [
        tmp_path / "tb" / "curves" / "events.out.tfevents.fedbo",
        *(tmp_path / "tb" / "curves" / f"trial-{t.number}" / "events.out.tfevents.fedbo" for t in reporting),
    ]

    def scalars(folder: Path) -> dict[str, list[tuple[int, float, float]]]:
        read = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
        read.Reload()
        tags = read.Tags()["scalars"]
        return {tag: [(each.step, each.wall_time, each.value) for each in read.Scalars(tag)] for tag in tags}

    def float32(value: float) -> float:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])

    best, expected_best, expected = -math.inf, [], []
    for trial in study.trials:  # with one worker, the order of telling equals the order of asking
        if trial.value is not None and trial.told_at is not None:
            best = max(best, trial.value)
            expected.append((trial.number, trial.told_at.timestamp(), float32(trial.value)))
            expected_best.append((trial.number, trial.told_at.timestamp(), float32(best)))
    assert scalars(tmp_path / "tb" / "curves") == {"value": expected, "best": expected_best}
    for trial in reporting:
        assert trial.told_at is not None
        time = trial.told_at.timestamp()
        assert scalars(tmp_path / "tb" / "curves" / f"trial-{trial.number}") == {
            "value": [(epoch, time, float32(value)) for epoch, value in trial.reports]
        }
    before = [file.read_bytes() for file in files]
    assert study.export(tmp_path / "tb", format="tensorboard") == files
    assert [file.read_bytes() for file in files] == before, "nothing is doubled"


def test_tensorboard_needs_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    study = _study(tmp_path)
    assert _program(monkeypatch, "export", study.storage, "--format", "tensorboard") == 2
    assert "name it with --out DIR" in capfd.readouterr().err
    assert _program(monkeypatch, "export", study.storage, "--format", "tensorboard", "--out", str(tmp_path / "tb")) == 0
    assert "event files" in capfd.readouterr().out


def test_parquet_is_the_table_of_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    study = _study(tmp_path)
    path = tmp_path / "all.parquet"
    assert study.export(path) == [path]
    assert list(tmp_path.glob("*.part")) == []
    table = pandas.read_parquet(path)
    assert table["params_x"].tolist() == [trial["x"] for trial in study.trials]
    assert table["value"].dropna().tolist() == [t.value for t in study.trials if t.value is not None]
    assert table.columns.tolist() == study.trials_dataframe().columns.tolist()


def _space_file(folder: Path) -> Path:
    path = folder / "study.toml"
    path.write_text(
        "[study]\nname = 'curves'\ntrials = 9\ndirection = 'maximize'\n"
        "[space.x]\ntype = 'float'\nlow = -2.0\nhigh = 2.0\n[space.kind]\ntype = 'categorical'\nchoices = ['a', 'b']\n"
    )
    return path


def _import(monkeypatch: pytest.MonkeyPatch, folder: Path, table: Path, name: str) -> int:
    arguments = ("--space", str(_space_file(folder)), "--storage", f"sqlite:{folder}/old.db", "--name", name)
    return _program(monkeypatch, "import", str(table), *arguments)


def test_an_export_is_imported_and_learnt_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    study = _study(tmp_path)
    study.export(tmp_path / "all.csv")
    assert _import(monkeypatch, tmp_path, tmp_path / "all.csv", "old") == 0
    assert "failed" in capfd.readouterr().out
    old = fedbo.Study.load(f"sqlite:{tmp_path}/old.db", "old")
    complete = [(trial.params, trial.value) for trial in study.trials if trial.state == "complete"]
    assert [(trial.params, trial.value) for trial in old.trials] == complete
    assert {trial.state for trial in old.trials} == {"complete"} and old.direction == "maximize"
    assert _import(monkeypatch, tmp_path, tmp_path / "all.csv", "old") == 0
    assert f"0 trials imported as study \"old\" in sqlite:{tmp_path}/old.db; {len(complete)} already known" in capfd.readouterr().out
    assert len(old.trials) == len(complete)
    new = fedbo.Study("new", study.space, direction="maximize", old_studies=[f"sqlite:{tmp_path}/old.db#old"])
    new.optimize(lambda params: -float(params["x"]) ** 2, n_trials=2)
    assert new.plot.transfer().svg.startswith("<svg")


def test_a_table_of_optuna_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = pytest.importorskip("optuna")
    pytest.importorskip("pandas")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    theirs = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))

    def objective(trial: optuna.Trial) -> float:  # type: ignore[name-defined]
        x, kind = trial.suggest_float("x", -2, 2), trial.suggest_categorical("kind", ["a", "b"])
        if x > 1.5:
            raise optuna.TrialPruned
        return float(x) if kind == "a" else float(-x)

    theirs.optimize(objective, n_trials=12)
    table = tmp_path / "optuna.csv"
    theirs.trials_dataframe().to_csv(table)
    assert _import(monkeypatch, tmp_path, table, "theirs") == 0
    old = fedbo.Study.load(f"sqlite:{tmp_path}/old.db")
    complete = [t for t in theirs.trials if t.state.name == "COMPLETE"]
    assert 0 < len(complete) < 12
    assert [(dict(t.params), t.value) for t in old.trials] == [(dict(t.params), t.value) for t in complete]


def test_the_trials_of_pandas_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas")
    study = _study(tmp_path)
    table = tmp_path / "pandas.csv"
    study.trials_dataframe().to_csv(table, index=False)
    assert _import(monkeypatch, tmp_path, table, "old") == 0
    old = fedbo.Study.load(f"sqlite:{tmp_path}/old.db")
    assert [t.value for t in old.trials] == [t.value for t in study.trials if t.state == "complete"]
