"""Errors a user can act on.

::

    GpuevalError
    ├── UsageError          exit 2   a command, option or setting is wrong
    │   └── DataError       exit 2   an input file is wrong; names file, line and field
    │       └── UnknownModel  exit 2   a model's configuration is beyond the sizing rules; the model may be fine
    ├── PrerequisiteError   exit 3   something is missing: an extra, a model folder
    │   └── DoesNotFit      exit 3   a model needs more memory than there is
    └── EngineError         exit 4   the engine that answers requests failed
        └── EngineDied      exit 4   its process is gone; the run may start it again

The command line prints ``message`` and ``remedy`` and never a traceback. Exit code 1 is kept for a gate that failed,
130 for an interrupt.
"""

from __future__ import annotations

from typing import ClassVar


class GpuevalError(Exception):
    """Base of every error raised on purpose.

    Args:
        message: What is wrong, where, and the value that was found.
        remedy: The one command or setting that mends it; empty when there is none.
    """

    exit_code: ClassVar[int] = 4

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class UsageError(GpuevalError):
    """Raised when a command, an option or a setting is wrong."""

    exit_code = 2


class DataError(UsageError):
    """Raised when an input file is wrong.

    Args:
        message: What is wrong with the value.
        file: Path as the user gave it.
        line: 1-based line in the file (for Parquet: 1-based row); None when it concerns the whole file.
        field: Column or key; None when it concerns the whole line.
        remedy: What to change.
    """

    def __init__(
        self, message: str, *, file: str, line: int | None = None, field: str | None = None, remedy: str = ""
    ) -> None:
        where = file + (f", line {line}" if line is not None else "") + (f", field '{field}'" if field else "")
        super().__init__(f"{where}: {message}", remedy)
        self.file, self.line, self.field = file, line, field


class UnknownModel(DataError):
    """Raised when a model's configuration says something that sizing has no rule for."""


class PrerequisiteError(GpuevalError):
    """Raised when a package, a model folder or a device is missing."""

    exit_code = 3


class DoesNotFit(PrerequisiteError):
    """Raised when a model does not fit on this machine."""


class EngineError(GpuevalError):
    """Raised when an engine cannot start or cannot go on."""

    exit_code = 4


class EngineDied(EngineError):
    """Raised from ``Engine.run`` when the process that computes is gone."""
