"""``gpueval gate``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gpueval.cli.words import print_json, write_file
from gpueval.decisions.compare import check_alike
from gpueval.decisions.gate import OUTCOMES, Outcome, check, worst
from gpueval.decisions.policy import PRESETS, read_policy
from gpueval.decisions.scored import read_scored
from gpueval.report.gate import gate_markdown, junit, show_gate


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    required=True,
    metavar="FILE|PRESET",
    help=f"TOML file, or {' or '.join(PRESETS)}; what it may hold: docs/gates.md.",
)
@click.option("--baseline", type=click.Path(path_type=Path), help="Earlier run of the same samples, for max_loss.")
@click.option("--anyway", is_flag=True, help="Hold it against a baseline of another judge or other samples, too.")
@click.option(
    "--fail-on",
    type=click.Choice(OUTCOMES[:0:-1]),
    default="block",
    show_default=True,
    help="Exit with code 1 from this outcome on: block is the worst, then review, then warn.",
)
@click.option("--junit", "junit_path", type=click.Path(path_type=Path), help="Write the checks as JUnit XML here.")
@click.option("--markdown", "markdown_path", type=click.Path(path_type=Path), help="Write them as Markdown here.")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def gate(
    folder: Path,
    policy: str,
    baseline: Path | None,
    anyway: bool,
    fail_on: Outcome,
    junit_path: Path | None,
    markdown_path: Path | None,
    as_json: bool,
) -> int:
    """Hold the run in FOLDER against a policy. Exit code 1 when it blocks; low coverage blocks.

    A level missed within the noise, and the block of a judge without calibration, count as review.
    """
    rules = read_policy(policy)
    run, before = read_scored(folder), read_scored(baseline) if baseline else None
    notes = check_alike(before, run, anyway=anyway) if before else []
    checks = check(rules, run, before)
    passed = OUTCOMES.index(worst(checks)) < OUTCOMES.index(fail_on)
    if junit_path:
        write_file(junit_path, junit(checks).decode())
    if markdown_path:
        write_file(markdown_path, gate_markdown(checks, notes, passed=passed))
    if as_json:
        named = {
            key: [item.name for item in checks if item.result == result]
            for key, result in (("blocked", "block"), ("review", "review"), ("warned", "warn"))
        }
        print_json({"passed": passed, **named, "checks": checks, "warnings": notes})
    else:
        show_gate(Console(), checks, notes, passed=passed)
    return 0 if passed else 1
