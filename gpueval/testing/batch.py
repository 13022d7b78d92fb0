"""All samples of a pytest session in one run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpueval.data.columns import Columns, to_sample
from gpueval.data.load import load
from gpueval.errors import GpuevalError, UsageError
from gpueval.fingerprint import digest
from gpueval.records import Sample
from gpueval.testing.scores import Scores

_DONE = "session"


def samples_of(given: Any, test_file: Path) -> list[Sample]:
    """Return the samples that a marker names: a mapping, a sample, several, a file beside the test, or a function.

    Raises:
        DataError: They are wrong; says where.
    """
    if callable(given):
        given = given()
    if isinstance(given, str | Path):
        return list(load(test_file.parent / given, Columns()))
    if isinstance(given, Mapping | Sample):
        given = [given]
    rows: Iterable[Any] = given
    return [
        row if isinstance(row, Sample) else to_sample(row, Columns(), file=test_file.name, line=number)
        for number, row in enumerate(rows, start=1)
    ]


def given_by(marker: pytest.Mark) -> Any:
    """Return what a marker names, by place or as ``samples=``.

    Raises:
        UsageError: It names nothing.
    """
    if marker.args or "samples" in marker.kwargs:
        return marker.args[0] if marker.args else marker.kwargs["samples"]
    raise UsageError(
        "The marker gpueval names no samples.", "Write @pytest.mark.gpueval(SAMPLES), a function as samples=FUNCTION."
    )


def each_of(marker: pytest.Mark, test_file: Path) -> list[Sample]:
    """Return the samples of a marker that makes one test of each."""
    try:
        return samples_of(given_by(marker), test_file)
    except GpuevalError as error:
        raise pytest.UsageError(_told(error)) from error


class Batch:
    """Judges the samples of all selected tests at the first that asks.

    Under xdist every worker selects the same tests: the first to hold the lock judges for all, the others read what it
    left. Metrics are those of all markers together.

    Args:
        config: Pytest's.
        items: The selected tests.
        case: Parameter that holds a test's one sample.
    """

    def __init__(self, config: pytest.Config, items: Sequence[pytest.Item], case: str) -> None:
        self._config, self._case = config, case
        self._items = [item for item in items if item.get_closest_marker("gpueval")]
        self._scores: dict[str, Scores] | None = None
        self._failure: GpuevalError | None = None

    def scores(self, item: pytest.Item) -> Scores:
        """Return the scores of a test; judges everything when it is the first to ask."""
        if item.get_closest_marker("gpueval") is None:
            pytest.fail("The fixture 'scored' needs the marker @pytest.mark.gpueval(samples).", pytrace=False)
        if self._scores is None and self._failure is None:
            try:
                self._scores = self._judge()
            except GpuevalError as error:
                self._failure = error
        if self._failure is not None:
            pytest.fail(_told(self._failure), pytrace=False)
        return (self._scores or {})[item.nodeid]

    def _judge(self) -> dict[str, Scores]:
        rows: list[Sample] = []
        own: dict[str, list[tuple[int, str]]] = {}
        made: dict[int, list[Sample]] = {}
        for item in self._items:
            marker = item.get_closest_marker("gpueval")
            assert marker is not None
            case = getattr(item, "callspec", None) and item.callspec.params.get(self._case)  # type: ignore[attr-defined]
            given = given_by(marker) if case is None else case
            if id(given) not in made:  # a function is called once, whoever names it
                made[id(given)] = samples_of(given, item.path)
            own[item.nodeid] = []
            for sample in made[id(given)]:
                own[item.nodeid].append((len(rows), sample.id))
                rows.append(msgspec.structs.replace(sample, id=str(len(rows))))
        folder = self._folder()
        with _alone(folder):
            done = digest(self._session().encode(), msgspec.json.encode(rows)).hex()
            if not (folder / _DONE).is_file() or (folder / _DONE).read_text() != done:
                self._evaluate(rows, folder)
                (folder / _DONE).write_text(done)
            cells = [line["scores"] for line in _lines(folder / "scores.jsonl")]
        return {nodeid: Scores([(id_, cells[n]) for n, id_ in places]) for nodeid, places in own.items()}

    def _evaluate(self, rows: Sequence[Sample], folder: Path) -> None:
        from gpueval.pipeline import evaluate

        default = self._config.getini("gpueval_metrics")
        metrics = [
            name
            for item in self._items
            if (marker := item.get_closest_marker("gpueval"))
            for name in marker.kwargs.get("metrics") or default
        ]
        self._say(f"gpueval: judging {len(rows):,} samples of {len(self._items):,} tests together")
        evaluate(
            rows,
            judge=self._setting("judge"),
            embedder=self._setting("embedder"),
            metrics=tuple(dict.fromkeys(metrics)),
            out=folder,
        )

    def _say(self, text: str) -> None:
        """Print a line on the terminal, past the capture; a worker of xdist has none."""
        terminal, capture = map(self._config.pluginmanager.getplugin, ("terminalreporter", "capturemanager"))
        if terminal and capture:
            with capture.global_and_fixture_disabled():
                terminal.ensure_newline()
                terminal.write_line(text)

    def _setting(self, name: str) -> str | None:
        """Read an option, else its ini key, else its environment variable."""
        given = self._config.getoption(f"gpueval_{name}") or self._config.getini(f"gpueval_{name}")
        return given or os.environ.get(f"GPUEVAL_{name.upper()}") or None

    def _folder(self) -> Path:
        given = self._setting("out")
        if given:
            return self._config.rootpath / given
        home = self._config.rootpath / ".gpueval"
        home.mkdir(exist_ok=True)
        (home / ".gitignore").write_text("*\n")
        return home / "pytest"

    def _session(self) -> str:
        """Name the session: the same for all workers of xdist, another each time."""
        worker: Mapping[str, str] = getattr(self._config, "workerinput", {})
        return worker.get("testrunuid") or f"{os.getpid()} {id(self._config)}"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process works in a folder."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".pytest.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _told(error: GpuevalError) -> str:
    return f"gpueval: {error.message}" + (f"\n  {error.remedy}" if error.remedy else "")
