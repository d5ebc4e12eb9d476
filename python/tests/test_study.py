"""Studies in one process: ask and tell, functions as objectives, invalid arguments."""

from __future__ import annotations

import json
import logging
import math
import os
import pickle
import signal
import threading
import time
import typing
from pathlib import Path

import numpy as np
import pytest

import fedbo


def parabola(params: dict[str, fedbo.Value]) -> float:
    x = params["x"]
    assert isinstance(x, float)
    return (x - 0.3) ** 2


def new(**options: object) -> fedbo.Study:
    space = {"x": fedbo.Float(-2.0, 2.0)}
    return fedbo.Study("parabola", space, direction="minimize", **options)


def test_ask_and_tell_find_the_minimum() -> None:
    study = new()
    for _ in range(20):
        trial = study.ask()
        assert trial.state == "running"
        study.tell(trial, parabola(dict(trial.params)))
    best = study.best_trial
    assert best.value is not None and best.value < 1e-3
    assert best.value == study.best_value
    assert study.best_params == dict(best.params)
    assert [trial.number for trial in study.trials] == list(range(20))
    assert [trial.source for trial in study.trials[:5]] == ["initial"] * 5


def test_ask_keeps_given_values() -> None:
    """The best x equals h, so a model of all trials predicts the best x for an h that no trial had."""
    study = fedbo.Study("given", {"x": fedbo.Float(0, 1), "h": fedbo.Float(0, 1), "k": ["a", "b"]}, direction="minimize", seed=4)
    rng = np.random.default_rng(2)
    for _ in range(25):
        h = float(rng.random())
        trial = study.ask(given={"h": h})
        assert trial["h"] == h
        study.tell(trial, (trial["x"] - h) ** 2 + 0.1 * (trial["k"] == "a"))
    missed = [abs(study.ask(given={"h": h, "k": "b"})["x"] - h) for h in (0.2, 0.5, 0.8)]
    assert sum(missed) / 3 < 0.1, missed
    whole = {"x": 0.25, "h": 0.5, "k": "a"}
    assert study.ask(given=whole).params == whole
    assert study.ask(given={}).source == study.ask().source


def test_given_values_that_do_not_fit_are_refused() -> None:
    study = fedbo.Study("given", {"x": fedbo.Float(0, 1), "k": ["a", "b"]}, direction="minimize")
    with pytest.raises(fedbo.DefinitionError, match="x = 7.0, expected a number from 0.0 to 1.0"):
        study.ask(given={"x": 7})
    with pytest.raises(fedbo.DefinitionError, match="no parameter y; the space has x, k"):
        study.ask(given={"y": 1})
    with pytest.raises(fedbo.DefinitionError, match="k = c, expected one of a, b"):
        study.ask(given={"k": "c"})
    assert study.trials == []


def test_optimize_equals_ask_and_tell() -> None:
    by_hand, by_function = new(), new()
    for _ in range(12):
        trial = by_hand.ask()
        by_hand.tell(trial, parabola(dict(trial.params)))
    report = by_function.optimize(parabola, 12)
    assert report == fedbo.RunReport(told=12, failed=0, stopped=0, open=0, ended="complete")
    assert [t.params for t in by_hand.trials] == [t.params for t in by_function.trials]
    assert [t.value for t in by_hand.trials] == [t.value for t in by_function.trials]


def test_trials_count_those_before() -> None:
    study = new()
    study.optimize(parabola, 5)
    assert study.optimize(parabola, 5).told == 0
    assert study.optimize(parabola, 8).told == 3


def test_a_function_is_given_a_trial_if_it_asks_for_one() -> None:
    seen: list[int] = []

    def by_name(trial):
        seen.append(trial.number)
        return trial["x"]

    def by_annotation(t: fedbo.Trial) -> float:
        seen.append(t.number)
        return float(t["x"])

    study = new()
    study.optimize(by_name, 2)
    study.optimize(by_annotation, 4)
    study.optimize(lambda params: params["x"], 5)
    assert seen == [0, 1, 2, 3]


def test_every_kind_of_parameter_comes_back_as_it_was_declared() -> None:
    space: dict[str, object] = {
        "rate": fedbo.Float(1e-5, 1e-1, log=True),
        "grid": fedbo.Float(0.0, 1.0, step=0.25),
        "units": fedbo.Int(8, 1024, log=True),
        "even": fedbo.Int(0, 10, step=2),
        "name": ["adam", "sgd", 'say "hi"\\'],
        "flag": [True, False],
        "mixed": fedbo.Categorical([1, 2.5, "x"]),
    }
    study = fedbo.Study("kinds", space, direction="maximize", strategy="random")
    for _ in range(30):
        trial = study.ask()
        assert list(trial.params) == list(space)
        assert isinstance(trial["rate"], float) and 1e-5 <= trial["rate"] <= 1e-1
        assert trial["grid"] in (0.0, 0.25, 0.5, 0.75, 1.0)
        assert isinstance(trial["units"], int) and 8 <= trial["units"] <= 1024
        assert trial["even"] in range(0, 11, 2)
        assert trial["name"] in ("adam", "sgd", 'say "hi"\\')
        assert isinstance(trial["flag"], bool)
        assert trial["mixed"] in (1, 2.5, "x")
        study.tell(trial, 1.0)
    declared = study.space
    assert declared["rate"] == fedbo.Float(1e-5, 1e-1, log=True)
    assert declared["even"] == fedbo.Int(0, 10, step=2)
    assert declared["mixed"] == fedbo.Categorical((1, 2.5, "x"))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "returned None, which is not a number"),
        ("0.5", "returned '0.5', which is not a number"),
        (True, "returned True, which is not a number"),
        ([1.0, 2.0], "returned list, which is not a number"),
        (1j, "returned complex, which is not a number"),
        (10**400, "returned a whole number that is too large for a floating-point number"),
        (math.nan, "returned NaN, which is not a finite number"),
        (math.inf, "returned inf, which is not a finite number"),
    ],
)
def test_what_is_no_value_is_a_failure(value: object, says: str, caplog: pytest.LogCaptureFixture) -> None:
    study = new()
    with caplog.at_level(logging.WARNING, logger="fedbo"):
        with pytest.raises(fedbo.ObjectiveError) as raised:
            study.optimize(lambda params: value, 5, failures_max=1)
    (trial,) = study.trials
    assert says.lower() in str(raised.value.__cause__).lower()
    assert says.lower() in caplog.text.lower()
    assert trial.state == "failed" and trial.value is None
    assert trial.message is not None and says in trial.message


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), np.int64(3), np.array(0.25), 3])
def test_numbers_of_numpy_are_values(value: object) -> None:
    study = new()
    study.optimize(lambda params: value, 1)
    assert study.best_value == float(value)


def test_an_exception_is_a_failed_trial_and_the_run_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def diverges(trial: fedbo.Trial) -> float:
        if trial.number == 2:
            raise ValueError("diverged")
        return parabola(dict(trial.params))

    study = new()
    with caplog.at_level(logging.WARNING, logger="fedbo"):
        report = study.optimize(diverges, 6)
    assert (report.told, report.failed) == (6, 1)
    assert study.trials[2].state == "failed"
    assert "ValueError: diverged" in (study.trials[2].message or "")
    (record,) = caplog.records
    assert record.exc_info is not None and record.exc_info[0] is ValueError


def test_a_function_that_always_fails_ends_the_run_with_its_exception() -> None:
    def broken(params: dict[str, fedbo.Value]) -> float:
        return {}["no such key"]

    study = new()
    with pytest.raises(fedbo.ObjectiveError, match="consecutive trials failed") as caught:
        study.optimize(broken, 100)
    assert isinstance(caught.value.__cause__, KeyError)
    assert [trial.state for trial in study.trials] == ["failed"] * 5
    study = new()
    assert study.optimize(broken, 7, failures_max=0).failed == 7


def test_exceptions_that_end_programs_end_the_run_and_release_the_trial() -> None:
    def exits(params: dict[str, fedbo.Value]) -> float:
        raise SystemExit(3)

    study = new()
    with pytest.raises(SystemExit):
        study.optimize(exits, 5)
    assert [trial.state for trial in study.trials] == ["waiting"]
    study.optimize(parabola, 3)
    assert [trial.state for trial in study.trials] == ["complete"] * 3


def test_callbacks_see_every_trial_and_may_stop() -> None:
    seen: list[tuple[int, float | None]] = []

    def watch(study: fedbo.Study, trial: fedbo.Trial) -> None:
        seen.append((trial.number, trial.value))
        if trial.number == 3:
            study.stop()

    study = new()
    report = study.optimize(parabola, 10, callbacks=[watch])
    assert report.ended == "stopped" and report.told == 4
    assert seen == [(trial.number, trial.value) for trial in study.trials]

    def raises(study: fedbo.Study, trial: fedbo.Trial) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        study.optimize(parabola, 10, callbacks=[raises])
    assert study.trials[4].state == "complete"  # the trial is told before the callback


def test_threads_evaluate_at_once() -> None:
    at_once, most = 0, 0
    lock = threading.Lock()

    def slow(params: dict[str, fedbo.Value]) -> float:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.1)
        with lock:
            at_once -= 1
        return parabola(params)

    study = new()
    assert study.optimize(slow, 8, n_jobs=4).told == 8
    assert 2 <= most <= 4
    assert len({trial.params["x"] for trial in study.trials}) == 8


def test_other_threads_run_while_the_study_asks() -> None:
    space = {f"x{i}": fedbo.Float(-2.0, 2.0) for i in range(6)}
    study = fedbo.Study("wide", space, direction="minimize")
    ticks, over = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = time.perf_counter()
    study.optimize(lambda params: sum(float(v) ** 2 for v in params.values()), 60)
    seconds = time.perf_counter() - before
    over.set()
    thread.join()
    assert ticks > 100 * seconds, f"{ticks} ticks of a millisecond in {seconds} s"


def test_asks_of_many_threads_are_different_points() -> None:
    study = new()
    asked: list[fedbo.Trial] = []

    def ask() -> None:
        for _ in range(5):
            asked.append(study.ask())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(trial.number for trial in asked) == list(range(40))
    assert len({trial.params["x"] for trial in asked}) == 40


def test_enqueue_release_and_retry() -> None:
    study = new()
    mine = study.enqueue({"x": np.float64(0.25)})
    assert (mine.state, mine.source) == ("waiting", "enqueued")
    trial = study.ask()
    assert trial.number == mine.number and trial["x"] == 0.25
    study.release(trial)
    assert study.trials[0].state == "waiting"
    again = study.ask()
    assert again.number == trial.number
    study.tell(again, failed="out of memory")
    retried = study.retry(again)
    assert retried.params == again.params and retried.number == 1
    with pytest.raises(fedbo.Error, match="already being retried"):
        study.retry(again)


def test_a_typo_is_corrected_and_a_trial_discarded(tmp_path: Path) -> None:
    study = fedbo.Study("bench", {"x": fedbo.Float(0, 1)}, direction="maximize", storage=f"sqlite:{tmp_path}/s.db")
    first, second = study.ask(), study.ask()
    with pytest.raises(fedbo.StorageError, match="trial 0 is running"):
        study.correct(first, 1.0)
    study.tell(first, 1250.0)
    study.tell(second, 13.0)
    study.correct(first, 12.5)
    assert (study.best_value, study.trials[0].value) == (13.0, 12.5)
    study.discard(second)
    assert (study.best_value, study.trials[1].state, study.trials[1].value) == (12.5, "discarded", None)
    study.optimize(lambda params: params["x"], n_trials=3)
    assert len(study.trials) == 4
    study.correct(1, 14.0)
    assert study.best_value == 14.0
    with pytest.raises(TypeError, match="the corrected value is"):
        study.correct(1, "high")  # type: ignore[arg-type]
    study.export(tmp_path / "trials.json")
    corrections = json.loads((tmp_path / "trials.json").read_text())["trials"][1]["corrections"]
    assert [(each["state"], each["value"]) for each in corrections] == [("complete", 13.0), ("discarded", None)]


def test_what_is_told_twice_or_wrongly_is_refused() -> None:
    study = new()
    trial = study.ask()
    with pytest.raises(fedbo.DefinitionError, match="tell either a value or failed"):
        study.tell(trial)
    with pytest.raises(fedbo.DefinitionError, match="not a finite number"):
        study.tell(trial, math.nan)
    with pytest.raises(TypeError, match="the value told is '0.5', which is not a number"):
        study.tell(trial, "0.5")
    study.tell(trial, 1.0)
    study.tell(trial, 1.0)  # telling the same value again is allowed
    with pytest.raises(fedbo.StorageError):
        study.tell(trial, 2.0)
    with pytest.raises(fedbo.DefinitionError, match=r"no trial 99; .* \(Study.trials has them\)"):
        study.tell(99, 1.0)
    with pytest.raises(fedbo.DefinitionError, match="expected a number from -2 to 2|x = 7"):
        study.enqueue({"x": 7.0})
    with pytest.raises(fedbo.Error, match="no trial with a value"):
        new().best_trial  # noqa: B018


@pytest.mark.parametrize(
    ("space", "options", "says"),
    [
        ({}, {}, "space"),
        ({"x": fedbo.Float(2.0, 1.0)}, {}, "are the bounds reversed"),
        ({"x": fedbo.Float(0.0, 1.0, log=True)}, {}, "above 0"),
        ({"x": ["only"]}, {}, "has a single value"),
        ({"x": ["a", "b"]}, {"strategy": "log-ie"}, "log-ei"),
        ({"x": ["a", "b"]}, {"strategy_options": {"name_of_none": 1}}, "name_of_none"),
        ({"x": ["a", "b"]}, {"direction": "up"}, "minimize"),
        ({"x": ["a", "b"]}, {"storage": "sqlite"}, "sqlite:FILE"),
        ({"x": ["a", "b"]}, {"seed": -1}, "seed"),
        ({"x,y": ["a", "b"]}, {}, "without braces"),
    ],
)
def test_a_definition_that_cannot_be_used_is_refused(
    space: dict[str, object], options: dict[str, object], says: str
) -> None:
    arguments = {"direction": "minimize", **options}
    with pytest.raises(fedbo.DefinitionError, match=says) as caught:
        fedbo.Study("wrong", space, **arguments)
    assert isinstance(caught.value, ValueError)


def test_errors_name_arguments_and_no_lines_of_a_file() -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"direction": "min"}, "Study('wrong'): direction = \"min\", expected"),
        ({"seed": "7"}, "Study('wrong'): seed = \"7\", expected"),
        ({"strategy": "logei"}, "Study('wrong'): strategy = \"logei\", expected"),
        ({"strategy_options": {"foo": 1}}, "Study('wrong'): unknown key strategy_options.foo"),
        ({"old_studies": ["nowhere.db"]}, "Study('wrong'): old_studies[0] = \"nowhere.db\", expected"),
        ({"early_stopping": {"epoch": 3}}, "Study('wrong'): unknown key early_stopping.epoch; did you mean epochs?"),
    ]
    for given, says in cases:
        with pytest.raises(fedbo.DefinitionError) as caught:
            fedbo.Study("wrong", {"x": fedbo.Float(0, 1)}, **{"direction": "minimize", **given})
        assert str(caught.value).startswith(says) and "\n" not in str(caught.value), caught.value


def test_a_function_that_cannot_be_called_is_refused_before_a_trial() -> None:
    study = new()

    def two(x: float, y: float) -> float:
        return x + y

    for function in (two, lambda: 0.0, lambda **params: 0.0):
        with pytest.raises(TypeError, match="cannot be called with one argument, a dict of parameters"):
            study.optimize(function, 3)
    assert not study.trials
    assert study.optimize(lambda params, factor=2.0: factor * params["x"], 3).told == 3


def test_parameters_that_are_ambiguous_are_refused() -> None:
    with pytest.raises(TypeError, match=r"write fedbo.Float\(0, 1\)"):
        fedbo.Study("wrong", {"x": (0, 1)}, direction="minimize")
    with pytest.raises(TypeError, match="no order"):
        fedbo.Study("wrong", {"x": {"a", "b"}}, direction="minimize")
    with pytest.raises(TypeError, match="got int"):
        fedbo.Study("wrong", {"x": 3}, direction="minimize")


def test_studies_go_on_where_they_are_stored(tmp_path: Path) -> None:
    storage = tmp_path / "study.db"
    new(storage=storage).optimize(parabola, 6)
    again = new(storage=storage)
    assert again.optimize(parabola, 9).told == 3
    loaded = fedbo.Study.load(storage)
    assert loaded.trials == again.trials
    with pytest.raises(fedbo.DefinitionError, match="stored with different settings"):
        new(storage=storage, seed=5)
    with pytest.raises(fedbo.StorageError):
        fedbo.Study.load(tmp_path / "absent.db")
    with pytest.raises(fedbo.Error, match="there is no study"):
        fedbo.Study.load(storage, "other")
    whole = new()
    whole.optimize(parabola, 9)
    assert [t.params for t in whole.trials] == [t.params for t in loaded.trials]


def test_pickle_is_by_address(tmp_path: Path) -> None:
    study = new(storage=tmp_path / "study.db")
    study.optimize(parabola, 3)
    copy = pickle.loads(pickle.dumps(study))
    assert copy.trials == study.trials
    with pytest.raises(fedbo.Error, match="memory"):
        pickle.dumps(new())
    trial = pickle.loads(pickle.dumps(study.ask()))
    with pytest.raises(fedbo.Error, match="another process"):
        trial.report(1, 0.5)


def test_trainings_that_lag_are_stopped() -> None:
    study = fedbo.Study(
        "curves",
        {"x": fedbo.Float(0.0, 1.0)},
        direction="minimize",
        early_stopping={"rule": "median", "epochs": 10},
    )
    epochs = 0

    def train(trial: fedbo.Trial) -> float:
        nonlocal epochs
        x = float(trial["x"])
        for epoch in range(1, 11):
            epochs += 1
            value = x + 1.0 / epoch
            if trial.report(epoch, value):
                break
        return value

    report = study.optimize(train, 30)
    assert report.stopped > 3
    assert epochs < 300
    stopped = [trial for trial in study.trials if trial.state == "stopped"]
    assert all(trial.value is None and trial.message for trial in stopped)
    assert all(len(trial.reports) < 10 for trial in stopped)
    by_hand = study.ask()
    assert by_hand.report(1, 50.0) == (study.trials[by_hand.number].state == "stopped")


def test_a_report_that_is_no_number_fails_the_trial() -> None:
    study = fedbo.Study(
        "curves",
        {"x": fedbo.Float(0.0, 1.0)},
        direction="minimize",
        early_stopping={"rule": "median", "epochs": 3},
    )

    def train(trial: fedbo.Trial) -> float:
        assert trial.report(1, math.nan)
        return 0.0

    study.optimize(train, 1)
    assert study.trials[0].state == "failed"


@pytest.mark.parametrize("epoch", [-1, 0, "1", 1.5, True])
def test_an_epoch_is_a_whole_number(epoch: object) -> None:
    space = {"x": fedbo.Float(0.0, 1.0)}
    study = fedbo.Study("curves", space, direction="minimize", early_stopping={"rule": "median", "epochs": 3})
    asked = study.ask()
    with pytest.raises((fedbo.DefinitionError, TypeError), match="epoch = .*, expected a whole number of at least 1"):
        asked.report(epoch, 0.5)  # type: ignore[arg-type]

    def train(trial: fedbo.Trial) -> float:
        trial.report(epoch, 0.5)  # type: ignore[arg-type]
        return 0.0

    study.release(asked)
    study.optimize(train, 1)
    assert "expected a whole number of at least 1" in (study.trials[0].message or "")


def test_a_study_without_early_stopping_takes_no_reports() -> None:
    study = new()
    with pytest.raises(fedbo.Error, match=r"made without early_stopping, .* tell their values with tell$"):
        study.report(study.ask(), 1, 0.5)


def test_old_studies_are_learned_from(tmp_path: Path) -> None:
    old = new(storage=tmp_path / "old.db")
    old.optimize(parabola, 15)
    space = {"x": fedbo.Float(-2.0, 2.0)}
    study = fedbo.Study(
        "new", space, direction="minimize", strategy="rm-gp-ucb", old_studies=[f"sqlite:{tmp_path}/old.db"]
    )
    study.optimize(parabola, 1)
    assert study.best_value < 0.5  # the first query uses the old study; a random one has 1.4 on average
    alone = f"sqlite:{tmp_path}/old.db"
    same = fedbo.Study("same", space, direction="minimize", strategy="rm-gp-ucb", old_studies=alone)
    same.optimize(parabola, 1)
    assert same.trials[0].params == study.trials[0].params


def test_files_define_studies_too(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        '[study]\nname = "f"\ndirection = "minimize"\ntrials = 7\nstorage = "sqlite:f.db"\n[space.x]\ntype = "float"\n'
        "low = -2.0\nhigh = 2.0\n[objective]\ncommand = [\"no-such-program\"]\n"
    )
    study = fedbo.Study.from_file(file)
    assert study.optimize(parabola).told == 7
    assert (tmp_path / "f.db").exists()
    file.write_text(file.read_text().replace("trials = 7", "trials = -7"))
    with pytest.raises(fedbo.DefinitionError, match="study.toml, line 4"):
        fedbo.Study.from_file(file)
    with pytest.raises(fedbo.DefinitionError, match="n_trials is missing"):
        new().optimize(parabola)


def test_ctrl_c_prints_how_to_resume_and_the_same_call_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    def interrupted(params: dict[str, float]) -> float:
        nonlocal calls
        calls += 1
        if calls == 4:
            signal.raise_signal(signal.SIGINT)
        return parabola(params)

    study = new(storage=tmp_path / "kept.db")
    with pytest.raises(KeyboardInterrupt):
        study.optimize(interrupted, 6)
    assert f"the finished trials of study 'parabola' are in {study.storage}; run the same script again" in caplog.text
    assert str(tmp_path / "kept.db") in study.storage
    assert len([trial for trial in study.trials if trial.state == "complete"]) >= 3
    study.optimize(parabola, 6)
    assert [trial.state for trial in study.trials] == ["complete"] * 6
    calls = 0
    with pytest.raises(KeyboardInterrupt):
        new().optimize(interrupted, 6)
    assert "exist only in this process" in caplog.text and "storage='sqlite:parabola.db'" in caplog.text


def test_tables_and_texts() -> None:
    study = new()
    study.optimize(parabola, 4)
    table = study.trials_dataframe()
    assert list(table["number"]) == [0, 1, 2, 3]
    assert table["params_x"].tolist() == [trial["x"] for trial in study.trials]
    assert len(new().trials_dataframe()) == 0
    assert repr(study) == "<Study 'parabola': minimize over x, by log-ei, in memory:>"
    assert "<table>" in study._repr_html_() and "<table>" in study.trials[0]._repr_html_()


def test_the_progress_bar_counts_trials(capsys: pytest.CaptureFixture[str]) -> None:
    new().optimize(parabola, 3, show_progress_bar=True)
    assert "3/3" in capsys.readouterr().err


def test_what_a_thread_returns_is_judged_as_in_the_calling_one() -> None:
    study = new()
    report = study.optimize(lambda params: 10**400, 4, n_jobs=2, failures_max=0)
    assert (report.told, report.failed) == (4, 4)


@pytest.mark.parametrize(
    "limits",
    [{"timeout": 0}, {"timeout": math.nan}, {"patience": -1}, {"failures_max": -1}, {"improvement_min": math.nan}, {"n_jobs": 0}],
)
def test_limits_that_mean_nothing_are_refused(limits: dict[str, object]) -> None:
    study = new()
    with pytest.raises(fedbo.DefinitionError, match=next(iter(limits))):
        study.optimize(parabola, 3, **limits)
    assert study.trials == []


@pytest.mark.parametrize(
    "limits",
    [{"timeout": "1"}, {"patience": 2.5}, {"failures_max": "3"}, {"improvement_min": "0"}, {"n_jobs": "4"}, {"n_jobs": True}],
)
def test_limits_of_another_type_are_named(limits: dict[str, object]) -> None:
    study = new()
    with pytest.raises(TypeError, match=f"{next(iter(limits))} = .*, expected a .*number"):
        study.optimize(parabola, 3, **limits)
    assert study.trials == []


@pytest.mark.parametrize(
    "options",
    [{"space": [fedbo.Float(0.0, 1.0)]}, {"early_stopping": "median"}, {"strategy_options": ["xi"]}],
)
def test_arguments_that_are_no_dict_are_named(options: dict[str, object]) -> None:
    arguments = {"space": {"x": fedbo.Float(0.0, 1.0)}, "direction": "minimize", **options}
    with pytest.raises(TypeError, match=f"{next(iter(options))} = .*, expected a dict"):
        fedbo.Study("wrong", **arguments)
    with pytest.raises(TypeError, match="params = .*, expected a dict"):
        new().enqueue([1.0])  # type: ignore[arg-type]


def test_bounds_are_numbers() -> None:
    with pytest.raises(TypeError, match="'0' is not a number"):
        fedbo.Float("0", 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="True is not a number"):
        fedbo.Int(0, True)


def test_a_strategy_has_one_name() -> None:
    with pytest.raises(TypeError, match="expected its name; options go into strategy_options"):
        new(strategy={"name": "ts"})
    with pytest.raises(fedbo.DefinitionError, match="strategy_options has the key 'name'"):
        new(strategy="log-ei", strategy_options={"name": "random"})


def test_pickles_know_where_they_were_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a@b").mkdir()
    monkeypatch.chdir(tmp_path / "a@b")
    study = new(storage="sqlite:s.db")
    study.optimize(parabola, 2)
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickle.dumps(study)).trials == study.trials


LONE = os.fsdecode(b"Messung_\xe4.csv")  # like a file name that is not UTF-8


class Index:
    """An integer type of another package, which only has ``__index__``."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("cannot parse " + LONE), r"the objective reported: ValueError: cannot parse Messung_\udce4.csv"),
        (ValueError("\ud800"), r"the objective reported: ValueError: \ud800"),
        (ValueError("nul \0"), None),
        (Unspeakable(), "the objective reported: Unspeakable: its text cannot be shown"),
    ],
    ids=["lone", "surrogate", "nul", "unspeakable"],
)
def test_an_error_of_any_text_is_a_failed_trial(error: Exception, message: str | None, n_jobs: int) -> None:
    def fails_once(params: dict[str, fedbo.Value], seen: list[int]) -> float:
        seen.append(1)
        if len(seen) == 2:
            raise error
        return parabola(params)

    study = new()
    seen: list[int] = []
    study.optimize(lambda params: fails_once(params, seen), n_trials=5, n_jobs=n_jobs)
    assert sorted(trial.state for trial in study.trials) == ["complete"] * 4 + ["failed"]
    failed = next(trial for trial in study.trials if trial.state == "failed")
    assert message is None or failed.message == message


class Odd:
    """A value that an objective may return by mistake."""

    shape = ()

    def item(self) -> float:
        raise RuntimeError("on a device that is gone")


class OddMapping(dict[str, float]):
    def __iter__(self) -> typing.Iterator[str]:
        raise RuntimeError("no names")


def test_a_returned_value_that_cannot_be_read_is_a_failed_trial() -> None:
    several = {"objectives": {"a": "minimize", "b": "minimize"}}
    for returned, options in [(Odd(), {"direction": "minimize"}), (LONE, {"direction": "minimize"}), (OddMapping(), several)]:
        study = fedbo.Study("odd", {"x": fedbo.Float(0.0, 1.0)}, **options)
        study.optimize(lambda params, returned=returned: returned, n_trials=2, failures_max=0)
        assert [trial.state for trial in study.trials] == ["failed", "failed"], returned


def test_a_handler_of_the_log_that_raises_leaves_no_trial_waiting() -> None:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("the disk of the log is full")

    def fails(params: dict[str, fedbo.Value]) -> float:
        raise ValueError("bad point")

    study = new()
    handler = Raising()
    logging.getLogger("fedbo").addHandler(handler)
    try:
        with pytest.raises(OSError, match="disk of the log"):
            study.optimize(fails, n_trials=3)
    finally:
        logging.getLogger("fedbo").removeHandler(handler)
    assert [trial.state for trial in study.trials] == ["failed"]


def test_texts_that_are_not_unicode_are_refused_with_the_argument() -> None:
    space = {"x": fedbo.Float(0.0, 1.0), "kind": ["a", "b"]}
    study = fedbo.Study("texts", space, direction="minimize")
    trial = study.ask()
    study.tell(trial, failed="cannot read " + LONE)
    assert study.trials[0].message == r"cannot read Messung_\udce4.csv"
    for act in (
        lambda: fedbo.Study(LONE, space, direction="minimize"),
        lambda: fedbo.Study("s", {LONE: fedbo.Float(0.0, 1.0)}, direction="minimize"),
        lambda: fedbo.Study("s", {"kind": ["a", LONE]}, direction="minimize"),
        lambda: fedbo.Study("s", space, direction="minimize", storage="sqlite:" + LONE),
        lambda: fedbo.Study.load("memory:", LONE),
        lambda: study.enqueue({"x": 0.5, "kind": LONE}),
        lambda: study.enqueue({LONE: 0.5, "kind": "a"}),
        lambda: fedbo.Federation("f", space, agents=["a", LONE], rounds=1, direction="minimize"),
        lambda: fedbo.Federation("f", space, agents=["a"], rounds=1, direction="minimize", algorithm=LONE),
        lambda: fedbo.privacy.statement(LONE),
        lambda: fedbo.Peer("peer.toml", name=LONE),
    ):
        with pytest.raises(fedbo.DefinitionError, match=r"(lone surrogate|Messung_\\udce4)"):
            act()


def test_numbers_out_of_range_are_errors_of_fedbo() -> None:
    space = {"x": fedbo.Float(0.0, 1.0), "n": fedbo.Int(0, 9)}
    study = fedbo.Study("n", space, direction="minimize", early_stopping={"rule": "median", "epochs": 5})
    trial = study.ask()
    for act in (
        lambda: study.tell(-1, 1.0),
        lambda: study.tell(2**70, 1.0),
        lambda: study.tell(-1, failed="why"),
        lambda: study.release(-1),
        lambda: study.retry(2**64),
        lambda: study.report(trial, 2**70, 1.0),
        lambda: study.report(trial, 0, 1.0),
        lambda: study.report(-1, 1, 1.0),
        lambda: study.enqueue({"x": 0.5, "n": 2**70}),
        lambda: study.optimize(parabola, n_trials=-1),
        lambda: study.optimize(parabola, n_trials=2**70),
        lambda: study.optimize(parabola, n_trials=1, n_jobs=0),
        lambda: study.optimize(parabola, n_trials=1, patience=2**70),
        lambda: study.optimize(parabola, n_trials=1, failures_max=2**70),
        lambda: fedbo.Study("s", space, direction="minimize", seed=2**70),
        lambda: fedbo.Study("s", {"n": fedbo.Int(0, 2**70)}, direction="minimize"),
    ):
        with pytest.raises(fedbo.DefinitionError):
            act()
    for value in (True, np.bool_(True), "0.5", None, 10**400):
        with pytest.raises(TypeError, match="the value reported is .*number"):
            trial.report(1, value)  # type: ignore[arg-type]
    assert [each.state for each in study.trials] == ["running"]


def test_whole_numbers_of_other_packages_are_taken_everywhere() -> None:
    for whole in (np.int64, np.uint8, Index):
        study = fedbo.Study(
            "n", {"x": fedbo.Float(0.0, 1.0), "n": fedbo.Int(whole(0), whole(9))}, direction="minimize", seed=whole(3), initial=whole(4)
        )
        assert study.seed == 3
        report = study.optimize(
            lambda params: params["x"],
            n_trials=whole(5),
            n_jobs=whole(1),
            patience=whole(50),
            failures_max=whole(3),
        )
        assert report.told == 5 and len(study.trials) == 5
        assert study.enqueue({"x": 0.5, "n": whole(3)}).params["n"] == 3
        study.tell(whole(5), 0.25)
        assert study.trials[5].value == 0.25
        training = fedbo.Study(
            "t", {"x": fedbo.Float(0.0, 1.0)}, direction="minimize", early_stopping={"rule": "median", "epochs": whole(5)}
        )
        assert training.ask().report(whole(1), 0.5) is False
        pair = fedbo.Federation(
            "pair", {"x": fedbo.Float(0.0, 1.0)}, agents=["a", "b"], rounds=whole(1), direction="minimize", seed=whole(1)
        )
        result = pair.simulate({name: lambda params: params["x"] for name in "ab"}, n_runs=whole(1), n_jobs=whole(1))
        assert len(result.rows) > 0
        given = {"sampling_rate": 0.25, "noise_multiplier": 2.0, "rounds": whole(50), "agents": whole(40)}
        assert fedbo.privacy.epsilon(**given).releases == 50
    with pytest.raises(TypeError, match="n_trials"):
        new().optimize(parabola, n_trials=True)
    with pytest.raises(TypeError, match="n_trials"):
        new().optimize(parabola, n_trials=5.0)


def test_a_trial_of_another_study_is_refused(tmp_path: Path) -> None:
    kept = new(storage=tmp_path / "a.db")
    for ours, other in [(new(), new()), (kept, new(storage=tmp_path / "b.db")), (kept, new())]:
        trial = ours.ask()
        with pytest.raises(fedbo.DefinitionError, match="another study"):
            other.tell(trial, 1.0)
        other.ask()
        for act in (
            lambda: other.tell(trial, 1.0),
            lambda: other.tell(trial, failed="why"),
            lambda: other.report(trial, 1, 1.0),
            lambda: other.release(trial),
            lambda: other.retry(trial),
        ):
            with pytest.raises(fedbo.DefinitionError, match="another study"):
                act()
        assert [each.state for each in other.trials] == ["running"]
        ours.tell(trial, 1.0)
    # The same study, opened again, accepts a trial that was pickled.
    trial = kept.ask()
    again = fedbo.Study.load(tmp_path / "a.db")
    again.tell(pickle.loads(pickle.dumps(trial)), 0.5)
    assert kept.trials[trial.number].value == 0.5

    def tells_another(trial: fedbo.Trial) -> float:
        with pytest.raises(fedbo.DefinitionError, match="another study"):
            new().tell(trial, 1.0)
        return 0.5

    new().optimize(tells_another, n_trials=1)


def test_the_same_value_told_again_is_accepted() -> None:
    study = new()
    trial, other = study.ask(), study.ask()
    study.tell(trial, 1.0)
    study.tell(trial, 1.0)
    study.tell(other, failed="spilled")
    study.tell(other, failed="spilled")
    for act in (
        lambda: study.tell(trial, 2.0),
        lambda: study.tell(trial, failed="spilled"),
        lambda: study.tell(other, failed="broken"),
        lambda: study.tell(other, 1.0),
    ):
        with pytest.raises(fedbo.StorageError, match="has already ended"):
            act()
    assert [(each.value, each.message) for each in study.trials] == [(1.0, None), (None, "spilled")]
