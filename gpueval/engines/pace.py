"""How many calls a server gets at once: more while it keeps up, half as many when it does not."""

from __future__ import annotations

_FIRST = 64
_QUICK, _SLOW = 0.25, 0.75


class Pace:
    """A limit of calls in flight by additive increase and multiplicative decrease (Chiu and Jain 1989).

    It starts at 64 and grows by one with every call that comes back within a quarter of the deadline: the limit doubles
    per round trip, as TCP starts. A refusal, a broken call, or one that takes more than three quarters of the deadline
    halves it, once per round trip; from then on it grows by one per round trip.

    Args:
        most: Highest limit.
        deadline_s: Deadline of a call, in seconds.
    """

    def __init__(self, most: int, deadline_s: float) -> None:
        self._most, self._deadline_s = most, deadline_s
        self._limit = float(min(_FIRST, most))
        self._starting = True
        self._halved_at = float("-inf")

    @property
    def limit(self) -> int:
        """Calls that may be in flight now, at least 1."""
        return int(self._limit)

    def served(self, began: float, now: float) -> None:
        """Take note of a good reply; times in seconds of one clock."""
        if now - began > _SLOW * self._deadline_s:
            self.strained(began, now)
        elif now - began <= _QUICK * self._deadline_s:
            self._limit = min(self._most, self._limit + (1.0 if self._starting else 1.0 / self._limit))

    def strained(self, began: float, now: float) -> None:
        """Take note of a refusal, a broken call or a missed deadline. Calls that began before the last halving tell
        nothing new.
        """
        if began >= self._halved_at:
            self._limit, self._halved_at, self._starting = max(1.0, self._limit / 2), now, False
