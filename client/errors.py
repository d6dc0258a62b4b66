"""How a command ends when it cannot do what was asked: what, where, why, and what to do."""


class CliError(Exception):
    """A failure explained to a person; `exit_code` tells scripts its kind."""

    exit_code = 1


class UsageError(CliError):
    """The arguments contradict each other."""

    exit_code = 2


class UnhealthyError(CliError):
    """The cluster did not become what was waited for."""

    exit_code = 3


class NotFoundError(CliError):
    """There is no such thing."""

    exit_code = 4
