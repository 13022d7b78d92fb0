"""``gpueval gate``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from gpueval.cli.words import print_json
from gpueval.report.gate import check, read_policy
from gpueval.report.terminal import show_gate
from gpueval.run_folder import read_summary


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    required=True,
    type=click.Path(path_type=Path),
    help="TOML file: min_coverage, [metrics.NAME] block, warn.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def gate(folder: Path, policy: Path, as_json: bool) -> int:
    """Hold the run in FOLDER against a policy. Exit code 1 when it blocks; low coverage blocks."""
    checks = check(read_policy(policy), read_summary(folder)["metrics"])
    blocked = [item.name for item in checks if item.result == "block"]
    if as_json:
        body = {
            "passed": not blocked,
            "blocked": blocked,
            "warned": [item.name for item in checks if item.result == "warn"],
            "checks": checks,
        }
        print_json(body)
    else:
        show_gate(Console(), checks, passed=not blocked)
    return 1 if blocked else 0
