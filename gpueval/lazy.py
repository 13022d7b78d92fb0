"""Import of optional packages at the moment they are needed."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from gpueval.errors import PrerequisiteError


def require(module: str, extra: str) -> Any:
    """Import ``module``, or say which extra brings it.

    Args:
        module: Dotted module name.
        extra: The extra of gpueval that installs it.

    Raises:
        PrerequisiteError: The module, or a package it needs, is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise PrerequisiteError(
            f"The Python package '{error.name}' is not installed, and this needs it ({module}).",
            f"Install it with: pip install 'gpueval[{extra}]'",
        ) from error


def load(target: str) -> Any:
    """Return the object that ``"module:name"`` names."""
    module, _, name = target.partition(":")
    found: ModuleType = importlib.import_module(module)
    return getattr(found, name)
