"""Keeps an interrupt an interrupt while vLLM starts.

vLLM waits for its engine process inside a context manager that takes ``KeyboardInterrupt`` for a reason to go on
(``zmq_socket_ctx``): Ctrl-C is lost, and an engine that the same signal ended is waited for without end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Interrupted(BaseException):
    """What vLLM does not know and so does not catch."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise _Interrupted


@contextmanager
def interruptible() -> Iterator[None]:
    """Let a signal that means Ctrl-C end the block with ``KeyboardInterrupt``, even where the block swallows that.

    Signals with another handler stay as they are; so does everything outside the main thread, which gets no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    changed = [number for number in _SIGNALS if signal.getsignal(number) is signal.default_int_handler]
    for number in changed:
        signal.signal(number, _interrupt)
    try:
        yield
    except _Interrupted as error:
        raise KeyboardInterrupt from error
    finally:
        for number in changed:
            signal.signal(number, signal.default_int_handler)
