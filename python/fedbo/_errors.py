"""Exceptions of fedbo. The native module raises them too."""


class Error(Exception):
    """Base class of fedbo's errors. The message explains how to continue."""


class DefinitionError(Error, ValueError):
    """An invalid definition, file, point or value."""


class StorageError(Error, OSError):
    """A storage that cannot be opened, read or written."""


class ObjectiveError(Error):
    """Too many consecutive evaluations failed. The cause is the last exception of the objective."""


class Refused(Error):
    """Another party refuses to continue, or a setting of this party forbids it."""


class BudgetSpent(Refused):
    """The next release would cost more privacy than this party allows."""


class SessionEnded(Error):
    """There are no further trials: the agent's plan is complete, the study is over, or the agent was closed."""
