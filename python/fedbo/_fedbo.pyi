from _typeshed import SupportsGetItem, SupportsLenAndGetItem
from os import PathLike
from pathlib import Path
from typing import Any, Final, SupportsFloat, SupportsIndex, final

__all__ = ["__version__", "Call", "Federation", "Mail", "Picture", "Sampler", "Stop", "Study", "answer", "enrol", "enrol_by_mail", "run_agent", "run_agent_by_mail", "run_peer", "run_program"]

__version__: Final[str]

@final
class Call:
    """
    A trial that is to be evaluated: its function reports to it, and it is ended once.
    """
    @property
    def agent(self, /) -> int:
        """
        Index of the agent, from 0.
        """
    def fail(self, /, message: str) -> None:
        """
        Ends it without one.
        """
    @property
    def number(self, /) -> int:
        """
        Number of the trial.
        """
    @property
    def params(self, /) -> dict:
        """
        The point as a dict.
        """
    def release(self, /) -> None:
        """
        Gives it back: it counts as not having been evaluated.
        """
    def report(self, /, epoch: SupportsIndex, value: SupportsFloat | SupportsIndex) -> bool:
        """
        Reports the value after an epoch; returns True if the training is to stop.
        """
    def stop(self, /) -> None:
        """
        Ends it as its reports had it stopped.
        """
    def tell(self, /, value: SupportsFloat | SupportsIndex) -> None:
        """
        Ends it with a value.
        """
    def tell_numbers(self, /, numbers: SupportsGetItem[int, SupportsFloat | SupportsIndex]) -> None:
        """
        Ends it with several numbers, in the order of the study's `number_names`.
        """

@final
class Federation:
    """
    A federation, before anybody has said what its agents tune.
    """
    @property
    def agents(self, /) -> list[tuple[str, bool]]:
        """
        The agents' names, each with whether its file says what it tunes.
        """
    @property
    def algorithm(self, /) -> str:
        """
        The algorithm's name.
        """
    @property
    def arms(self, /) -> list[str]:
        """
        The arms that can be compared: the algorithm, and its controls.
        """
    def default_arms(self, /, runs: SupportsIndex | None = None) -> list[str]:
        """
        The arms of a run for which none are named.
        """
    @property
    def direction(self, /) -> str:
        """
        `minimize` or `maximize`.
        """
    @staticmethod
    def from_file(path: str | PathLike[str], seed: SupportsIndex | None = None) -> Federation:
        """
        The same of a file, whose agents may have commands and problems too.
        """
    @staticmethod
    def from_text(text: str) -> Federation:
        """
        The federation that a text in the layout of a `federation.toml` describes, whose agents have names alone.
        """
    @property
    def initial(self, /) -> int:
        """
        Initial points of each agent.
        """
    @property
    def is_charged(self, /) -> bool:
        """
        True if its own arm charges what it releases to a budget.
        """
    @property
    def name(self, /) -> str:
        """
        Its name.
        """
    @property
    def rounds(self, /) -> int:
        """
        Queries of each agent after its initial points.
        """
    @property
    def seed(self, /) -> int:
        """
        The seed of every draw.
        """
    def simulate(self, /, evaluate: Any, on_told: Any, on_warning: Any, *, functions: SupportsGetItem[int, str], arms: SupportsGetItem[int, str], runs: SupportsIndex | None, out: str | PathLike[str], overwrite: bool, resume: bool, spend_again: bool, threads: SupportsIndex | None, failures_max: SupportsIndex | None) -> dict:
        """
        Runs arms, as `fedbo run` does, with results in the folder `out`. The agents `functions` are evaluated by `evaluate`, which
        begins a call and may end it later; `on_told` is given the rows of each wave, and ends the run by True.
        """
    @property
    def space(self, /) -> dict:
        """
        The parameters, each a dict.
        """
    @staticmethod
    def table_of(algorithm: str) -> str | None:
        """
        The table of a `federation.toml` that holds the options of an algorithm; None if there is none of this name.
        """

@final
class Mail:
    """
    The answers that a process of an agent was given, and the requests that it leaves.
    """
    def __new__(cls, /, answers: SupportsGetItem[int, tuple[SupportsLenAndGetItem[SupportsIndex], SupportsIndex, SupportsGetItem[int, tuple[str, str]], SupportsGetItem[int, SupportsIndex]]], challenge: SupportsLenAndGetItem[SupportsIndex] | None, asked_ms: SupportsIndex | None) -> Mail:
        """
        `challenge` and `asked_ms` are what the process before left: its challenge, and when its requests left, in milliseconds since 1970.
        """
    @property
    def challenge(self, /) -> bytes | None:
        """
        The challenge of an enrolment that is under way.
        """
    @property
    def outbox(self, /) -> list[tuple[bytes, str, str, list[tuple[str, str]], bytes]]:
        """
        The requests whose answers are missing, in the order in which they are to be answered.
        """

@final
class Picture:
    """
    A picture of a study, drawn each time that one asks for it.
    """
    def png(self, /) -> bytes:
        """
        The bytes of its PNG.
        """
    def svg(self, /) -> str:
        """
        The text of its SVG.
        """

@final
class Sampler:
    """
    The queries of a study whose trials are kept elsewhere. Calls release the interpreter's lock while they compute.
    """
    @staticmethod
    def from_text(label: str | PathLike[str], text: str) -> Sampler:
        """
        The sampler of the study that a text in the layout of a `study.toml` describes. Errors call the text `label`.
        """
    def propose(self, /, told: SupportsGetItem[int, tuple[dict, SupportsFloat | SupportsIndex | None, str]], open: SupportsGetItem[int, dict], number: SupportsIndex) -> tuple[dict, str] | None:
        """
        The point of trial `number` and its source, after trials that have ended and while others are open; None if every point was
        tried.
        """

@final
class Stop:
    """
    A flag that ends a run from another thread.
    """
    def __new__(cls, /) -> Stop: ...
    def set(self, /) -> None:
        """
        Ends the run.
        """

@final
class Study:
    """
    A study. Calls release the interpreter's lock while they compute or wait.
    """
    def ask(self, /) -> dict:
        """
        Asks for the next trial.
        """
    def best(self, /) -> dict | None:
        """
        The trial with the best value.
        """
    def best_trials(self, /) -> list:
        """
        The feasible trials that no other one dominates.
        """
    @property
    def constraints(self, /) -> list[tuple[str, float | None, float | None]]:
        """
        Names and bounds of the constraints: the largest and the least number that meets each.
        """
    @property
    def direction(self, /) -> str:
        """
        `minimize` or `maximize`.
        """
    def enqueue(self, /, params: dict) -> dict:
        """
        Puts a point in line.
        """
    @property
    def epochs(self, /) -> int | None:
        """
        Number of epochs of a training, if trials are stopped early.
        """
    def export(self, /, path: str | PathLike[str], format: str) -> list[Path]:
        """
        Writes all trials to `path`, in the form `csv`, `json` or `tensorboard`. Returns the files.
        """
    @staticmethod
    def from_file(path: str | PathLike[str]) -> Study:
        """
        The same of a file. Its command is not looked at.
        """
    @staticmethod
    def from_text(label: str | PathLike[str], text: str) -> Study:
        """
        Creates the study that a text in the layout of a `study.toml` describes, or goes on with it. Errors call the text `label`.
        """
    @staticmethod
    def import_trials(label: str | PathLike[str], text: str, trials: SupportsGetItem[int, tuple[dict, SupportsFloat | SupportsIndex]]) -> Study:
        """
        Stores trials as the study that a text in the layout of a `study.toml` describes, or adds those that it has not yet.
        """
    def insight(self, /, objective: SupportsIndex = 0) -> dict | None:
        """
        The findings of a model of all trials about an objective, by its place; None while there are fewer than two values.
        """
    @staticmethod
    def load(address: str, name: str | None = None) -> Study:
        """
        A study that is stored; the only one if none is named.
        """
    @property
    def name(self, /) -> str:
        """
        The study's name.
        """
    @property
    def noisy(self, /) -> bool:
        """
        True if values of one point differ.
        """
    @property
    def number_names(self, /) -> list[str]:
        """
        The names of a trial's numbers: objectives, then constraints; `value` for a single objective.
        """
    @property
    def objectives(self, /) -> list[tuple[str, str]]:
        """
        Names and directions of the objectives, where there are several.
        """
    def picture(self, /, name: str) -> Picture:
        """
        Draws `history`, `slices`, `importance`, `learning_curves`, `transfer` or `pareto`.
        """
    def release(self, /, number: SupportsIndex) -> None:
        """
        Gives back a trial that was asked for: it waits for whoever asks next.
        """
    def report(self, /, number: SupportsIndex, epoch: SupportsIndex, value: SupportsFloat | SupportsIndex) -> str | None:
        """
        Reports the value of a trial after an epoch. Returns why it was stopped, None if it goes on.
        """
    def retry(self, /, number: SupportsIndex) -> dict:
        """
        Puts the point of a failed trial in line once more.
        """
    def run(self, /, evaluate: Any, on_told: Any, on_warning: Any, *, n_trials: SupportsIndex, jobs: SupportsIndex, timeout: SupportsFloat | SupportsIndex | None, failures_max: SupportsIndex | None, patience: SupportsIndex | None, improvement_min: SupportsFloat | SupportsIndex) -> dict:
        """
        Evaluates trials until the study has `n_trials`, by `evaluate`, which begins a call and may end it later.
        """
    @property
    def run_options(self, /) -> tuple[int, int] | None:
        """
        The number of trials and of jobs in the study's file; None without a file.
        """
    @property
    def seed(self, /) -> int:
        """
        The seed of every draw.
        """
    @property
    def space(self, /) -> dict:
        """
        The parameters, each a dict.
        """
    @property
    def storage(self, /) -> str:
        """
        The place where it is kept, without a password.
        """
    @property
    def strategy(self, /) -> str:
        """
        The strategy's name.
        """
    def tell(self, /, number: SupportsIndex, value: SupportsFloat | SupportsIndex) -> None:
        """
        Tells the value of a trial.
        """
    def tell_failed(self, /, number: SupportsIndex, message: str) -> None:
        """
        Tells that a trial failed.
        """
    def tell_numbers(self, /, number: SupportsIndex, numbers: SupportsGetItem[int, SupportsFloat | SupportsIndex]) -> None:
        """
        Tells the numbers of a trial, in the order of `number_names`.
        """
    def trials(self, /) -> list:
        """
        All trials in the order of asking.
        """

def answer(arguments: SupportsGetItem[int, str]) -> str:
    """
    The JSON document of a command of the program that only computes one; the first argument is the program's name.
    """

def enrol(home: str | PathLike[str], coordinator: str, token: str, ca: str | PathLike[str] | None, allow_plain_http: bool, helper: str | None, on_space: Any) -> dict:
    """
    Enrols an agent. The parameters of its study are given to `on_space` before anything is stored.
    """

def enrol_by_mail(file: str | PathLike[str], token: str, mail: Mail, on_space: Any) -> bool:
    """
    Goes on with the enrolment of the agent of an `agent.toml`; returns True once it has joined. Else the mail's outbox has requests,
    or another process is at it. The parameters of its study are given to `on_space` before anything is stored.
    """

def run_agent(label: str | PathLike[str], text: str, stop: Stop, evaluate: Any, on_event: Any, on_warning: Any) -> str:
    """
    Runs an agent as a text in the layout of an `agent.toml` says, with an objective that `evaluate` begins, until its plan is done.
    `on_event` is told what happens, and ends the run by True. Errors call the text `label`. Returns the way in which it ended.
    """

def run_agent_by_mail(file: str | PathLike[str], mail: Mail, stop: Stop, evaluate: Any | None, on_event: Any, on_warning: Any) -> str:
    """
    Runs the agent of an `agent.toml` until it would wait for an answer that the mail does not have, with an objective that `evaluate`
    begins, or without one with the file's command. `on_event` is told what happens. Returns the way in which it ended: `interrupted`
    where the mail's outbox has requests, or another process runs the study.
    """

def run_peer(path: str | PathLike[str], evaluate: Any, on_event: Any, on_warning: Any, *, stop: Stop, name: str | None, home: str | PathLike[str] | None, listen: str | None, neighbours: SupportsGetItem[int, str], plain_http: bool, leave: bool) -> str:
    """
    Runs a peer as its file says, with an objective that `evaluate` begins in place of a command. `on_event` is told what happens.
    Returns the way in which it ended.
    """

def run_program(arguments: SupportsGetItem[int, str]) -> int:
    """
    Runs the program `fedbo` with these arguments, of which the first is its name, and returns its exit status.
    """
