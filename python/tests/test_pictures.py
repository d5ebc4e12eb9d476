"""Pictures and insight of a study from Python, compared with the program."""

from __future__ import annotations

import sys
from pathlib import Path

import fedbo
import pytest
from fedbo._plot import Picture
from fedbo._program import main

EARLY = {"epochs": 4, "rule": "median"}


def _objective(params: dict[str, float]) -> float:
    if params["x"] > 1.8:
        raise ValueError("too far")
    return (params["x"] - 0.5) ** 2 + 0.01 * params["y"]


def _study(folder: Path, name: str = "bowl", **options: object) -> fedbo.Study:
    space = {"x": fedbo.Float(-2.0, 2.0), "y": fedbo.Float(0.0, 1.0), "kind": ["a", "b"]}
    return fedbo.Study(name, space, direction="minimize", storage=f"sqlite:{folder}/{name}.db", **options)  # type: ignore[arg-type]


def _program(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["fedbo", *arguments])
    with pytest.raises(SystemExit) as ended:
        sys.exit(main())
    return int(ended.value.code or 0)


def test_pictures_are_those_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = _study(tmp_path, seed=4)
    study.optimize(_objective, n_trials=12)
    out = tmp_path / "pictures"
    assert _program(monkeypatch, "plot", study.storage, "--out", str(out)) == 0
    for name, picture in {
        "history": study.plot.history(),
        "slices": study.plot.slices(),
        "importance": study.plot.importance(),
    }.items():
        assert picture.svg == (out / f"{name}.svg").read_text(encoding="utf-8")
        assert picture._repr_svg_() == picture.svg
        saved = picture.save(tmp_path / f"{name}.png")
        assert saved.read_bytes() == (out / f"{name}.png").read_bytes()
        assert picture.save(tmp_path / f"{name}.SVG").read_text(encoding="utf-8") == picture.svg


def test_learning_curves_and_transfer_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _study(tmp_path, "old")
    old.optimize(_objective, n_trials=8)
    new = _study(tmp_path, "new", old_studies=[old.storage])
    new.optimize(_objective, n_trials=4)
    trained = _study(tmp_path, "trained", early_stopping=EARLY)

    def train(trial: fedbo.Trial) -> float:
        for epoch in range(1, 5):
            value = float(trial["x"]) ** 2 + 1 / epoch
            if trial.report(epoch, value):
                break
        return value

    trained.optimize(train, n_trials=6)
    for study, name, picture in [
        (new, "transfer", new.plot.transfer()),
        (trained, "learning-curves", trained.plot.learning_curves()),
    ]:
        out = tmp_path / study.name
        assert _program(monkeypatch, "plot", study.storage, "--out", str(out)) == 0
        assert picture.svg == (out / f"{name}.svg").read_text(encoding="utf-8")


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    study = _study(tmp_path)
    with pytest.raises(fedbo.Error, match="'?\"bowl\" has no finished trial"):
        study.plot.history()
    with pytest.raises(fedbo.Error, match="fewer than two values"):
        study.insight()
    study.optimize(_objective, n_trials=3)
    with pytest.raises(fedbo.Error, match="stops no trials early"):
        study.plot.learning_curves()
    with pytest.raises(fedbo.Error, match="learns from no old studies"):
        study.plot.transfer()
    with pytest.raises(fedbo.DefinitionError, match=r"\.svg or \.png"):
        study.plot.history().save(tmp_path / "history.pdf")
    with pytest.raises(fedbo.Error, match=r"none/history.svg: the picture cannot be written: No such file"):
        study.plot.history().save(tmp_path / "none" / "history.svg")
    with pytest.raises(fedbo.DefinitionError, match="backend = 'plotly'"):
        study.plot.history(backend="plotly")  # type: ignore[call-overload]


def test_insight_is_that_of_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    import json

    study = _study(tmp_path, noisy=True)
    study.optimize(_objective, n_trials=12)
    insight = study.insight()
    capfd.readouterr()
    assert _program(monkeypatch, "best", study.storage, "--json") == 0
    model = json.loads(capfd.readouterr().out)["model"]
    assert list(insight.importance) == ["x", "y", "kind"]
    for each in model["importance"]:
        found = insight.importance[each["name"]]
        assert (found.variance_share, found.relevance) == (each["variance_share"], each["relevance"])
    assert insight.best_by_mean.number == model["best_by_mean"]["number"]
    assert insight.best_by_mean.params == model["best_by_mean"]["parameters"]
    for key in ("mean", "std", "noise_std", "n_values"):
        assert getattr(insight, key) == model[key]
    assert insight.probability_feasible is None
    assert insight.importance["x"].variance_share > insight.importance["y"].variance_share


def test_a_notebook_shows_the_history(tmp_path: Path) -> None:
    study = _study(tmp_path, name="a<b")
    assert "<svg" not in study._repr_html_()
    study.optimize(_objective, n_trials=3)
    html = study._repr_html_()
    assert study.plot.history().svg in html
    assert "<h4>Study a&lt;b</h4>" in html
    assert isinstance(study.plot.slices(), Picture)


def test_matplotlib_draws_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    study = _study(tmp_path, seed=4)
    study.optimize(_objective, n_trials=12)
    values = [trial.value for trial in study.trials if trial.value is not None]
    assert len(values) < 12, "some trials fail"
    figure = study.plot.history(backend="matplotlib")
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    points = axes.collections[0].get_offsets()
    assert [y for _, y in points.tolist()] == values  # type: ignore[union-attr]
    best = axes.lines[0].get_ydata()
    assert list(best)[-1] == study.best_value  # type: ignore[arg-type]
    assert all(a >= b for a, b in zip(best, list(best)[1:]))  # type: ignore[arg-type]
    (axes,) = study.plot.importance(backend="matplotlib").axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    shares = [study.insight().importance[name].variance_share for name in names]
    assert sorted(names) == ["kind", "x", "y"] and shares == sorted(shares)
    assert [bar.get_width() for bar in axes.containers[0]] == shares


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = _study(tmp_path)
    study.optimize(_objective, n_trials=3)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        study.plot.history(backend="matplotlib")
