"""Exceptions of fedbo; the native module raises them too."""


class Error(Exception):
    """What fedbo cannot do, in words that say how to go on."""


class DefinitionError(Error, ValueError):
    """A definition, a file, a point or a value that cannot be used."""


class StorageError(Error, OSError):
    """A storage that cannot be opened, read or written."""


class ObjectiveError(Error):
    """Too many evaluations in a row that failed; its cause is the last exception of the objective."""


class Refused(Error):
    """Another party, or what this one allows, refuses to go on."""


class BudgetSpent(Refused):
    """The next release would cost more privacy than this party allows."""


class SessionEnded(Error):
    """There is nothing more to ask for: the agent's plan is done, the study is over, or the agent was closed."""
