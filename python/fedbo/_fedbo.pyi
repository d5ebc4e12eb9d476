from _typeshed import SupportsGetItem, SupportsLenAndGetItem
from os import PathLike
from pathlib import Path
from typing import Any, Final, SupportsFloat, SupportsIndex, final

__all__ = ["__version__", "Call", "Federation", "Mail", "Picture", "Sampler", "Stop", "Study", "answer", "enrol", "enrol_by_mail", "run_agent", "run_agent_by_mail", "run_peer", "run_program"]

__version__: Final[str]

@final
class Call:
    """
    A trial to evaluate. The evaluation may send reports, and must end the call exactly once.
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
    def tell_numbers(self, /, numbers: SupportsGetItem[int, SupportsFloat | SupportsIndex | None]) -> None:
        """
        Ends the call with several outcomes, in the order of the study's `number_names`. An outcome
        that was not measured is None.
        """

@final
class Federation:
    """
    A federation. The objectives of its agents are passed to `simulate`.
    """
    @property
    def agents(self, /) -> list[tuple[str, bool]]:
        """
        Pairs of an agent's name and True if the file defines its objective.
        """
    @property
    def algorithm(self, /) -> str:
        """
        Name of the algorithm.
        """
    @property
    def arms(self, /) -> list[str]:
        """
        Arms that can be compared: the algorithm and its controls.
        """
    @property
    def contributors(self, /) -> list[str]:
        """
        Names of the agents that only share previous trials and make no queries.
        """
    def default_arms(self, /, runs: SupportsIndex | None = None) -> list[str]:
        """
        Returns the arms that a run has by default.
        """
    @property
    def direction(self, /) -> str:
        """
        `minimize` or `maximize`.
        """
    @staticmethod
    def from_file(path: str | PathLike[str], seed: SupportsIndex | None = None) -> Federation:
        """
        Reads a `federation.toml`. Its agents may have commands or built-in problems as objectives.
        """
    @staticmethod
    def from_text(text: str) -> Federation:
        """
        Parses a federation from a string in the format of `federation.toml`. Its agents have names
        but no objectives.
        """
    @property
    def initial(self, /) -> int:
        """
        Number of initial points of each agent.
        """
    @property
    def is_charged(self, /) -> bool:
        """
        True if the algorithm charges its releases to a privacy budget.
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
        Runs arms like `fedbo run`, with results in the folder `out`. `evaluate` starts the
        evaluations of the agents named in `functions`. `on_told` is called with the rows of each
        wave of trials; the run ends if it returns True.
        """
    @property
    def space(self, /) -> dict:
        """
        The parameters as dicts.
        """
    @staticmethod
    def table_of(algorithm: str) -> str | None:
        """
        Returns the name of the table in a `federation.toml` that has the options of an algorithm,
        or `None` if the algorithm does not exist.
        """
    def with_observations(self, /, agent: str, trials: SupportsGetItem[int, tuple[dict, SupportsFloat | SupportsIndex]]) -> Federation:
        """
        Returns a copy of the federation with previous trials of an agent, given as points and
        values.
        """
    def with_observations_of(self, /, agent: str, place: str) -> Federation:
        """
        Returns a copy of the federation with previous trials of an agent, read from a study or a
        table. `place` has the format of the key `observations` in a file.
        """

@final
class Mail:
    """
    The responses for one process of an agent, and the requests that the process makes.
    """
    def __new__(cls, /, answers: SupportsGetItem[int, tuple[SupportsLenAndGetItem[SupportsIndex], SupportsIndex, SupportsGetItem[int, tuple[str, str]], SupportsGetItem[int, SupportsIndex]]], challenge: SupportsLenAndGetItem[SupportsIndex] | None, asked_ms: SupportsIndex | None) -> Mail:
        """
        `challenge` and `asked_ms` are those of the previous process: its challenge, and the time at
        which its requests were sent, in milliseconds since 1970.
        """
    @property
    def challenge(self, /) -> bytes | None:
        """
        The challenge of an enrolment in progress.
        """
    @property
    def outbox(self, /) -> list[tuple[bytes, str, str, list[tuple[str, str]], bytes]]:
        """
        The requests without responses. They must be processed in this order.
        """

@final
class Picture:
    """
    A picture of a study. Each method call draws it again.
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
    Proposes points for a study whose trials are stored elsewhere. Methods release the GIL while
    they compute.
    """
    @staticmethod
    def from_text(label: str | PathLike[str], text: str) -> Sampler:
        """
        Creates the sampler for a study defined by a text in the format of a `study.toml`. Error
        messages refer to the text as `label`.
        """
    def propose(self, /, told: SupportsGetItem[int, tuple[dict, SupportsFloat | SupportsIndex | None, str]], open: SupportsGetItem[int, dict], number: SupportsIndex) -> tuple[dict, str] | None:
        """
        Proposes the point of trial `number`, given the finished and the open trials. Returns the
        point and its source, or `None` if every point was tried.
        """

@final
class Stop:
    """
    A flag to end a run from another thread.
    """
    def __new__(cls, /) -> Stop: ...
    def set(self, /) -> None:
        """
        Sets the flag.
        """

@final
class Study:
    """
    A study. Methods release the GIL while they compute or wait.
    """
    def ask(self, /, given: dict | None = None) -> dict:
        """
        Asks for the next trial, or for one with the given values of some parameters.
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
        Names of the constraints, each with its upper and lower bound.
        """
    def correct(self, /, number: SupportsIndex, numbers: SupportsGetItem[int, SupportsFloat | SupportsIndex]) -> bool:
        """
        Replaces the outcomes of a finished trial, in the order of `number_names`. Returns False if
        nothing changed.
        """
    @property
    def direction(self, /) -> str:
        """
        `minimize` or `maximize`.
        """
    def discard(self, /, number: SupportsIndex) -> bool:
        """
        Discards a finished trial. Returns False if it is already discarded.
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
        Writes all trials to `path` in the format `csv`, `json` or `tensorboard`. Returns the paths
        of the written files.
        """
    @staticmethod
    def from_file(path: str | PathLike[str]) -> Study:
        """
        Creates or resumes the study defined by a file. The file's command is ignored.
        """
    @staticmethod
    def from_text(label: str | PathLike[str], text: str) -> Study:
        """
        Creates or resumes the study defined by a text in the format of a `study.toml`. Error
        messages refer to the text as `label`.
        """
    def identity(self, /) -> str | None:
        """
        Returns an id that distinguishes this study from others. It remains the same if the storage
        is moved, but changes if the study is recreated under the same name. A stored study has no
        id before its first trial.
        """
    @staticmethod
    def import_trials(label: str | PathLike[str], text: str, trials: SupportsGetItem[int, tuple[dict, SupportsGetItem[int, SupportsFloat | SupportsIndex]]]) -> Study:
        """
        Stores trials as a new study, defined by a text in the format of a `study.toml`. If the
        study exists, only missing trials are added.
        """
    def insight(self, /, objective: SupportsIndex = 0) -> dict | None:
        """
        Returns the results of a model fitted to all trials, for the objective with this index.
        Returns `None` if there are fewer than two values.
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
        Names of a trial's outcomes: first objectives, then constraints. A single objective is named
        `value`.
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
        Reports the value of a trial after an epoch. If this stops the trial, returns the reason.
        """
    def retry(self, /, number: SupportsIndex) -> dict:
        """
        Enqueues the point of a failed trial again.
        """
    def run(self, /, evaluate: Any, on_told: Any, on_warning: Any, *, n_trials: SupportsIndex, jobs: SupportsIndex, timeout: SupportsFloat | SupportsIndex | None, failures_max: SupportsIndex | None, patience: SupportsIndex | None, improvement_min: SupportsFloat | SupportsIndex) -> dict:
        """
        Evaluates trials until the study has `n_trials`. `evaluate` starts a call, which may end
        after `evaluate` returns.
        """
    @property
    def run_options(self, /) -> tuple[int, int] | None:
        """
        Number of trials and number of jobs in the study's file, or `None` without a file.
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
        Tells the outcomes of a trial in the order of `number_names`.
        """
    def trials(self, /) -> list:
        """
        Returns all trials in the order in which they were asked for.
        """

def answer(arguments: SupportsGetItem[int, str]) -> str:
    """
    Runs a command without side effects and returns its JSON document. The first argument is the
    program's name.
    """

def enrol(home: str | PathLike[str], coordinator: str, token: str, ca: str | PathLike[str] | None, allow_plain_http: bool, helper: str | None, proxy: str | None, on_space: Any) -> dict:
    """
    Enrols an agent. The parameters of the study are passed to `on_space` before anything is stored.
    """

def enrol_by_mail(file: str | PathLike[str], token: str, mail: Mail, on_space: Any) -> bool:
    """
    Continues the enrolment of the agent of an `agent.toml`. Returns True once the agent is
    enrolled. Before that, either the outbox of `mail` has requests or another process continues the
    enrolment. The parameters of the study are passed to `on_space` before anything is stored.
    """

def run_agent(label: str | PathLike[str], text: str, stop: Stop, evaluate: Any, on_event: Any, on_warning: Any) -> str:
    """
    Runs an agent until its plan is complete, with settings in the format of an `agent.toml`.
    `evaluate` starts its evaluations. `on_event` is called with each event; the run ends if it
    returns True. Error messages refer to the settings as `label`. Returns why the run ended.
    """

def run_agent_by_mail(file: str | PathLike[str], mail: Mail, stop: Stop, evaluate: Any | None, on_event: Any, on_warning: Any) -> str:
    """
    Runs the agent of an `agent.toml` until it needs a response that is not in `mail`. `evaluate`
    starts its evaluations; without it, the agent runs the file's command. `on_event` is called with
    each event. Returns why the run ended: `interrupted` if the outbox of `mail` has requests or
    another process runs the study.
    """

def run_peer(path: str | PathLike[str], evaluate: Any, on_event: Any, on_warning: Any, *, stop: Stop, name: str | None, home: str | PathLike[str] | None, listen: str | None, neighbours: SupportsGetItem[int, str], plain_http: bool, leave: bool) -> str:
    """
    Runs a peer as configured in its file, with `evaluate` instead of a command. `on_event` is
    called with each event. Returns why the run ended.
    """

def run_program(arguments: SupportsGetItem[int, str]) -> int:
    """
    Runs the program `fedbo` and returns its exit status. The first argument is the program's name.
    """
