"""Bayesian optimization of expensive functions, alone or in private collaboration with other parties.

>>> import fedbo
>>> study = fedbo.Study("tea", {"minutes": fedbo.Float(1, 10), "milk": ["before", "after"]}, direction="minimize")
>>> report = study.optimize(lambda cup: (cup["minutes"] - 3.5) ** 2 + (cup["milk"] == "after"), n_trials=25)
>>> study.best_params["milk"]
'before'
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from fedbo import privacy
from fedbo._agent import Agent, AgentReport, AgentStatus, PrivacyStatus, StudyStatus
from fedbo._errors import (
    BudgetSpent,
    DefinitionError,
    Error,
    ObjectiveError,
    Refused,
    SessionEnded,
    StorageError,
)
from fedbo._event import PartyEvent
from fedbo._fedbo import __version__
from fedbo._federation import ArmSummary, Comparison, Federation, FederationResult, FederationTrial
from fedbo._insight import Importance, Insight
from fedbo._peer import NeighbourStatus, Peer, PeerReport, PeerStatus
from fedbo._plot import Picture
from fedbo._space import Categorical, Float, Int, Mixture, Rule, Value
from fedbo._study import RunReport, Study
from fedbo._trial import Trial
from fedbo._worker import ServeError, Worker, WorkerReport, WorkerTrial

__all__ = [
    "Agent",
    "AgentReport",
    "AgentStatus",
    "ArmSummary",
    "BudgetSpent",
    "Categorical",
    "Comparison",
    "DefinitionError",
    "Error",
    "Federation",
    "FederationResult",
    "FederationTrial",
    "Float",
    "Importance",
    "Insight",
    "Int",
    "Mixture",
    "NeighbourStatus",
    "ObjectiveError",
    "PartyEvent",
    "Peer",
    "PeerReport",
    "PeerStatus",
    "Picture",
    "PrivacyStatus",
    "Refused",
    "Rule",
    "RunReport",
    "ServeError",
    "SessionEnded",
    "StorageError",
    "Study",
    "StudyStatus",
    "Trial",
    "Value",
    "Worker",
    "WorkerReport",
    "WorkerTrial",
    "__version__",
    "privacy",
]

if _TYPE_CHECKING:
    from fedbo.integrations.sklearn import FedboSearchCV as FedboSearchCV


def __getattr__(name: str) -> object:
    # Import on first use, because scikit-learn is an optional dependency.
    if name == "FedboSearchCV":
        from fedbo.integrations.sklearn import FedboSearchCV

        return FedboSearchCV
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "FedboSearchCV"])
