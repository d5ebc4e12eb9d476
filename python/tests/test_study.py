"""Studies in one process: ask and tell, functions as objectives, what is refused."""

from __future__ import annotations

import logging
import math
import pickle
import threading
import time
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
        (10**400, "returned int, which is not a number"),
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
    with pytest.raises(fedbo.ObjectiveError, match="one after another") as caught:
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
    assert study.trials[4].state == "complete"  # it was told before the callback


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
    with pytest.raises(fedbo.Error, match="tried again already"):
        study.retry(again)


def test_what_is_told_twice_or_wrongly_is_refused() -> None:
    study = new()
    trial = study.ask()
    with pytest.raises(fedbo.DefinitionError, match="one of both"):
        study.tell(trial)
    with pytest.raises(fedbo.DefinitionError, match="not a finite number"):
        study.tell(trial, math.nan)
    with pytest.raises(TypeError, match="the value told is '0.5', which is not a number"):
        study.tell(trial, "0.5")
    study.tell(trial, 1.0)
    study.tell(trial, 1.0)  # the same again is no mistake
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
        ({"x": ["only"]}, {}, "at least two"),
        ({"x": ["a", "b"]}, {"strategy": "log-ie"}, "log-ei"),
        ({"x": ["a", "b"]}, {"strategy_options": {"name_of_none": 1}}, "name_of_none"),
        ({"x": ["a", "b"]}, {"direction": "up"}, "minimize"),
        ({"x": ["a", "b"]}, {"storage": "sqlite"}, "sqlite:FILE"),
        ({"x": ["a", "b"]}, {"seed": -1}, "seed"),
        ({"x y": ["a", "b"]}, {}, "without blanks"),
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
    with pytest.raises(fedbo.DefinitionError, match="stored with other settings"):
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
    assert study.best_value < 0.5  # the first query asks the old study: a random one has 1.4 on average
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
    with pytest.raises(TypeError, match="'0' is no number"):
        fedbo.Float("0", 1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="True is no number"):
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
