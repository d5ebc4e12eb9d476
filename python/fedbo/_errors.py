"""Exceptions of fedbo, which the native module raises as well."""


class Error(Exception):
    """Base class of fedbo's errors. The message says how to continue."""


class DefinitionError(Error, ValueError):
    """An invalid definition, file, point or value."""


class StorageError(Error, OSError):
    """A storage that cannot be opened, read or written."""


class ObjectiveError(Error):
    """Too many consecutive evaluations failed. The cause is the last exception of the objective."""


class Refused(Error):
    """Another party, or a setting of this one, refuses to continue."""


class BudgetSpent(Refused):
    """The next release would cost more privacy than this party allows."""


class SessionEnded(Error):
    """No further trials: the agent's plan is done, the study is over, or the agent was closed."""
