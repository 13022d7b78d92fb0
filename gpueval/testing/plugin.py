"""The pytest plugin: a marker that names samples, and a fixture with their scores.

::

    @pytest.mark.gpueval({"question": "Where?", "answer": "In Paris.", "contexts": ["It is in Paris."]})
    def test_paris(scored):
        scored.check(faithfulness=0.8)

    @pytest.mark.gpueval("cases.jsonl", metrics=["faithfulness", "answer_relevancy"], each=True)
    def test_case(scored):          # one test per line of the file
        scored.check(faithfulness=0.5)

    @pytest.mark.gpueval(samples=answers_of_our_pipeline)     # a function that returns samples, called once
    def test_as_a_whole(scored):
        scored.check_mean(faithfulness=0.9)

The samples of all selected tests are judged together before the first of them asserts, so the judge is started once.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gpueval.testing.batch import Batch
    from gpueval.testing.scores import Scores

_BATCH: pytest.StashKey[Batch] = pytest.StashKey()
_SCORES: pytest.StashKey[Scores] = pytest.StashKey()
_CASE = "gpueval_case"
_MARKER = (
    "gpueval(samples, metrics=None, each=False): judge these samples (a mapping, a list of them, a file, or a function "
    "that returns them, as samples=function) with all others of the session; each=True makes one test per sample"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and their ini keys."""
    group = parser.getgroup("gpueval")
    for name, what in (
        ("judge", "model folder, server URL or scripted:RULES.jsonl that judges the samples of gpueval's marker"),
        ("embedder", "sentence-transformers folder for metrics that compare meanings"),
        ("out", "run folder of the tests' samples; what is stored there is not asked again"),
    ):
        group.addoption(f"--gpueval-{name}", metavar="PATH", help=what)
        parser.addini(f"gpueval_{name}", what)
    parser.addini("gpueval_metrics", "metrics where a marker names none, separated by blanks", "args", ["faithfulness"])


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker."""
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per sample where the marker says ``each``."""
    marker = metafunc.definition.get_closest_marker("gpueval")
    if marker and marker.kwargs.get("each"):
        from gpueval.testing.batch import each_of

        samples = each_of(marker, metafunc.definition.path)
        metafunc.fixturenames.append(_CASE)
        metafunc.parametrize(_CASE, samples, ids=[sample.id for sample in samples])


@pytest.fixture
def scored(request: pytest.FixtureRequest) -> Scores:
    """The scores of the samples that the test's ``gpueval`` marker names."""
    from gpueval.testing.batch import Batch  # a session of other tests imports nothing of ours

    stash = request.config.stash
    if _BATCH not in stash:  # what is left after -k and --lf
        stash[_BATCH] = Batch(request.config, request.session.items, _CASE)
    found = stash[_BATCH].scores(request.node)
    request.node.stash[_SCORES] = found
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the claims that are not supported, and their evidence, under a test that failed."""
    report = yield
    scores = item.stash.get(_SCORES, None)
    if report.when == "call" and report.failed and scores and (told := scores.explained()):
        report.sections.append(("gpueval", told))
    return report
