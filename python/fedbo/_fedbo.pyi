from _typeshed import SupportsGetItem, SupportsLenAndGetItem
from os import PathLike
from pathlib import Path
from typing import Any, Final, SupportsFloat, SupportsIndex, final

__all__ = ["__version__", "Call", "Federation", "Mail", "Picture", "Sampler", "Stop", "Study", "answer", "enrol", "enrol_by_mail", "run_agent", "run_agent_by_mail", "run_peer", "run_program"]

__version__: Final[str]

@final
class Call:
    """
    A trial to evaluate. Its function may report to it, and must end it once.
    """
    @property
    def agent(self, /) -> int:
        """
        Index of the agent, from 0.
        """
    def fail(self, /, message: str) -> None:
        """
        Ends the call with a failure.
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
        Ends the call without an evaluation and releases the trial.
        """
    def report(self, /, epoch: SupportsIndex, value: SupportsFloat | SupportsIndex) -> bool:
        """
        Reports the value after an epoch. Returns True if the training should stop.
        """
    def stop(self, /) -> None:
        """
        Ends the call of a trial that was stopped by its reports.
        """
    def tell(self, /, value: SupportsFloat | SupportsIndex) -> None:
        """
        Ends the call with a value.
        """
    def tell_numbers(self, /, numbers: SupportsGetItem[int, SupportsFloat | SupportsIndex]) -> None:
        """
        Ends the call with several numbers, in the order of the study's `number_names`.
        """

@final
class Federation:
    """
    A federation. `simulate` adds the objectives of its agents.
    """
    @property
    def agents(self, /) -> list[tuple[str, bool]]:
        """
        Names of the agents, each with True if the file has its objective.
        """
    @property
    def algorithm(self, /) -> str:
        """
        Name of the algorithm.
        """
    @property
    def arms(self, /) -> list[str]:
        """
        The arms that can be compared: the algorithm and its controls.
        """
    @property
    def contributors(self, /) -> list[str]:
        """
        Names of the agents that share previous trials and make no queries.
        """
    def default_arms(self, /, runs: SupportsIndex | None = None) -> list[str]:
        """
        Returns the arms of a run without explicit arms.
        """
    @property
    def direction(self, /) -> str:
        """
        `minimize` or `maximize`.
        """
    @staticmethod
    def from_file(path: str | PathLike[str], seed: SupportsIndex | None = None) -> Federation:
        """
        Reads a `federation.toml`. Its agents may have commands and built-in problems.
        """
    @staticmethod
    def from_text(text: str) -> Federation:
        """
        Parses a text in the format of a `federation.toml`. Its agents have only names.
        """
    @property
    def initial(self, /) -> int:
        """
        Number of initial points of each agent.
        """
    @property
    def is_charged(self, /) -> bool:
        """
        True if the arm of the algorithm charges its releases to a budget.
        """
    @property
    def name(self, /) -> str:
        """
        Name of the federation.
        """
    @property
    def rounds(self, /) -> int:
        """
        Number of queries of each agent after its initial points.
        """
    @property
    def seed(self, /) -> int:
        """
        Seed of all random numbers.
        """
    def simulate(self, /, evaluate: Any, on_told: Any, on_warning: Any, *, functions: SupportsGetItem[int, str], arms: SupportsGetItem[int, str], runs: SupportsIndex | None, out: str | PathLike[str], overwrite: bool, resume: bool, spend_again: bool, threads: SupportsIndex | None, failures_max: SupportsIndex | None) -> dict:
        """
        Runs arms as `fedbo run` does, with results in the folder `out`. `evaluate` starts the
        evaluations of the agents `functions`. `on_told` is called with the rows of each wave; if it
        returns True, the run ends.
        """
    @property
    def space(self, /) -> dict:
        """
        The parameters as dicts.
        """
    @staticmethod
    def table_of(algorithm: str) -> str | None:
        """
        Returns the name of the table in a `federation.toml` with the options of an algorithm;
        `None` if the algorithm does not exist.
        """
    def with_observations(self, /, agent: str, trials: SupportsGetItem[int, tuple[dict, SupportsFloat | SupportsIndex]]) -> Federation:
        """
        Returns a copy with previous trials of an agent, a list of points and their values.
        """
    def with_observations_of(self, /, agent: str, place: str) -> Federation:
        """
        Returns a copy with the trials of a study or a table, as named by the key `observations` of
        a file.
        """

@final
class Mail:
    """
    The answers given to a process of an agent, and the requests that it leaves.
    """
    def __new__(cls, /, answers: SupportsGetItem[int, tuple[SupportsLenAndGetItem[SupportsIndex], SupportsIndex, SupportsGetItem[int, tuple[str, str]], SupportsGetItem[int, SupportsIndex]]], challenge: SupportsLenAndGetItem[SupportsIndex] | None, asked_ms: SupportsIndex | None) -> Mail:
        """
        `challenge` and `asked_ms` come from the previous process: its challenge, and the time at
        which its requests left, in milliseconds since 1970.
        """
    @property
    def challenge(self, /) -> bytes | None:
        """
        The challenge of an enrolment in progress.
        """
    @property
    def outbox(self, /) -> list[tuple[bytes, str, str, list[tuple[str, str]], bytes]]:
        """
        The requests without answers. They must be answered in this order.
        """

@final
class Picture:
    """
    A picture of a study. It is drawn on each request.
    """
    def png(self, /) -> bytes:
        """
        Returns the picture as PNG bytes.
        """
    def svg(self, /) -> str:
        """
        Returns the picture as SVG text.
        """

@final
class Sampler:
    """
    Proposes points of a study with trials that are stored elsewhere. Calls release the
    interpreter's lock while they compute.
    """
    @staticmethod
    def from_text(label: str | PathLike[str], text: str) -> Sampler:
        """
        Creates the sampler of a study from a text in the format of a `study.toml`. Errors refer to
        the text by `label`.
        """
    def propose(self, /, told: SupportsGetItem[int, tuple[dict, SupportsFloat | SupportsIndex | None, str]], open: SupportsGetItem[int, dict], number: SupportsIndex) -> tuple[dict, str] | None:
        """
        Returns the point of trial `number` and its source, given the ended and the open trials;
        `None` if every point was tried.
        """

@final
class Stop:
    """
    A flag that ends a run from another thread.
    """
    def __new__(cls, /) -> Stop: ...
    def set(self, /) -> None:
        """
        Sets the flag.
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
        Returns the feasible trial with the best value.
        """
    def best_trials(self, /) -> list:
        """
        Returns the feasible trials that no other trial dominates.
        """
    @property
    def constraints(self, /) -> list[tuple[str, float | None, float | None]]:
        """
        Names of the constraints, with the largest and the smallest value that satisfies each.
        """
    @property
    def direction(self, /) -> str:
        """
        `minimize` or `maximize`.
        """
    def enqueue(self, /, params: dict) -> dict:
        """
        Adds a point to the queue.
        """
    @property
    def epochs(self, /) -> int | None:
        """
        Number of epochs of a complete training, if trials are stopped early.
        """
    def export(self, /, path: str | PathLike[str], format: str) -> list[Path]:
        """
        Writes all trials to `path` in the format `csv`, `json` or `tensorboard`. Returns the files.
        """
    @staticmethod
    def from_file(path: str | PathLike[str]) -> Study:
        """
        Creates or resumes the study of a file. Its command is ignored.
        """
    @staticmethod
    def from_text(label: str | PathLike[str], text: str) -> Study:
        """
        Creates or resumes the study of a text in the format of a `study.toml`. Errors refer to the
        text by `label`.
        """
    def identity(self, /) -> str | None:
        """
        Returns the study's id, which its trials carry; `None` before the first trial. It does not
        change if the storage is moved, but it does if the study is recreated under the same name.
        """
    @staticmethod
    def import_trials(label: str | PathLike[str], text: str, trials: SupportsGetItem[int, tuple[dict, SupportsGetItem[int, SupportsFloat | SupportsIndex]]]) -> Study:
        """
        Stores trials as a new study, described by a text in the format of a `study.toml`. If the
        study exists, only missing trials are added.
        """
    def insight(self, /, objective: SupportsIndex = 0) -> dict | None:
        """
        Returns the results of a model of all trials for the objective with this index; `None` if
        there are fewer than two values.
        """
    @staticmethod
    def load(address: str, name: str | None = None) -> Study:
        """
        Opens a stored study. `name` is needed only if the storage has several studies.
        """
    @property
    def name(self, /) -> str:
        """
        Name of the study.
        """
    @property
    def noisy(self, /) -> bool:
        """
        True if repeated evaluations of a point give different values.
        """
    @property
    def number_names(self, /) -> list[str]:
        """
        Names of a trial's numbers: objectives, then constraints; `value` for a single objective.
        """
    @property
    def objectives(self, /) -> list[tuple[str, str]]:
        """
        Names and directions of the objectives, if there are several.
        """
    def picture(self, /, name: str) -> Picture:
        """
        Draws `history`, `slices`, `importance`, `learning_curves`, `transfer` or `pareto`.
        """
    def release(self, /, number: SupportsIndex) -> None:
        """
        Releases a trial that was asked for. The next caller of `ask` gets it.
        """
    def report(self, /, number: SupportsIndex, epoch: SupportsIndex, value: SupportsFloat | SupportsIndex) -> str | None:
        """
        Reports the value of a trial after an epoch. Returns the reason if the trial was stopped.
        """
    def retry(self, /, number: SupportsIndex) -> dict:
        """
        Enqueues the point of a failed trial again.
        """
    def run(self, /, evaluate: Any, on_told: Any, on_warning: Any, *, n_trials: SupportsIndex, jobs: SupportsIndex, timeout: SupportsFloat | SupportsIndex | None, failures_max: SupportsIndex | None, patience: SupportsIndex | None, improvement_min: SupportsFloat | SupportsIndex) -> dict:
        """
        Evaluates trials until the study has `n_trials`. `evaluate` starts a call and may end it
        later.
        """
    @property
    def run_options(self, /) -> tuple[int, int] | None:
        """
        Numbers of trials and jobs in the study's file; `None` without a file.
        """
    @property
    def seed(self, /) -> int:
        """
        Seed of all random numbers.
        """
    @property
    def space(self, /) -> dict:
        """
        The parameters as dicts.
        """
    @property
    def storage(self, /) -> str:
        """
        Address of the storage, without its password.
        """
    @property
    def strategy(self, /) -> str:
        """
        Name of the strategy.
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
        Tells the numbers of a trial in the order of `number_names`.
        """
    def trials(self, /) -> list:
        """
        Returns all trials in the order of asking.
        """

def answer(arguments: SupportsGetItem[int, str]) -> str:
    """
    Returns the JSON document of a command that only computes one. The first argument is the
    program's name.
    """

def enrol(home: str | PathLike[str], coordinator: str, token: str, ca: str | PathLike[str] | None, allow_plain_http: bool, helper: str | None, proxy: str | None, on_space: Any) -> dict:
    """
    Enrols an agent. The parameters of its study are passed to `on_space` before anything is stored.
    """

def enrol_by_mail(file: str | PathLike[str], token: str, mail: Mail, on_space: Any) -> bool:
    """
    Continues the enrolment of the agent of an `agent.toml`. Returns True once the agent has joined.
    Until then, the mail's outbox has requests, or another process continues the enrolment. The
    parameters of the study are passed to `on_space` before anything is stored.
    """

def run_agent(label: str | PathLike[str], text: str, stop: Stop, evaluate: Any, on_event: Any, on_warning: Any) -> str:
    """
    Runs an agent with the settings of a text in the format of an `agent.toml` until its plan is
    done. `evaluate` starts its evaluations. `on_event` is called with each event; if it returns
    True, the run ends. Errors refer to the text by `label`. Returns how the run ended.
    """

def run_agent_by_mail(file: str | PathLike[str], mail: Mail, stop: Stop, evaluate: Any | None, on_event: Any, on_warning: Any) -> str:
    """
    Runs the agent of an `agent.toml` until it would wait for an answer that the mail does not have.
    `evaluate` starts its evaluations; without it, the agent runs the file's command. `on_event` is
    called with each event. Returns how the run ended: `interrupted` if the mail's outbox has
    requests or another process runs the study.
    """

def run_peer(path: str | PathLike[str], evaluate: Any, on_event: Any, on_warning: Any, *, stop: Stop, name: str | None, home: str | PathLike[str] | None, listen: str | None, neighbours: SupportsGetItem[int, str], plain_http: bool, leave: bool) -> str:
    """
    Runs a peer as configured by its file. `evaluate` starts its evaluations instead of a command.
    `on_event` is called with each event. Returns how the run ended.
    """

def run_program(arguments: SupportsGetItem[int, str]) -> int:
    """
    Runs the program `fedbo` with these arguments, starting with its name, and returns its exit
    status.
    """
