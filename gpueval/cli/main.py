"""The command group: loads a command's module when it is called, and turns errors into text and exit codes."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import click

from gpueval import __version__
from gpueval.errors import GpuevalError
from gpueval.lazy import load

_COMMANDS = {
    "run": ("gpueval.cli.run:run", "Score a file of RAG samples."),
    "rescore": ("gpueval.cli.rescore:rescore", "Score a run folder again from its stored replies, without a model."),
    "calibrate": (
        "gpueval.cli.calibrate:calibrate",
        "Measure the judge on human labels: agreement, threshold, corrected rate.",
    ),
    "rank": ("gpueval.cli.rank:rank", "Score what a retriever returned against relevance judgments."),
    "retrieve": (
        "gpueval.cli.retrieve:retrieve",
        "Embed a corpus, search it exactly and by FAISS, score what comes back.",
    ),
    "hardware": ("gpueval.cli.hardware:hardware", "Show what this machine has for a model."),
    "size": ("gpueval.cli.size:size", "Say whether a model fits and how fast it runs, before it is launched."),
    "plan": ("gpueval.cli.plan:plan", "Plan a run: which judge on which machine, with which arguments, how long."),
    "serve": ("gpueval.cli.serve:serve", "Start vLLM's OpenAI-compatible server with what fits."),
    "gate": ("gpueval.cli.gate:gate", "Hold a run against a policy; exit code 1 when it blocks."),
    "compare": ("gpueval.cli.compare:compare", "Hold runs against a base run: differences, significance, who turned."),
    "ablate": ("gpueval.cli.ablate:ablate", "Score with the true documents and with none: where are answers lost?"),
    "diagnose": ("gpueval.cli.diagnose:diagnose", "Say why a run scores as it does, or what changed since another."),
    "testset": ("gpueval.cli.testset:testset", "Make questions with answers and evidence from your own documents."),
    "report": ("gpueval.cli.report:report", "Write a run's HTML report anew, with a gate's checks, and open it."),
    "export": ("gpueval.cli.exchange:export_run", "Write a run's scores as a table, OpenMetrics, or for another tool."),
    "import": ("gpueval.cli.exchange:import_run", "Make a run folder of results of Ragas, DeepEval or TruLens."),
    "metrics": ("gpueval.cli.metrics:metrics", "List the metrics, what they need and which way is better."),
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = load(_COMMANDS[cmd_name][0])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpueval")
def cli() -> None:
    """Score retrieval-augmented generation on your own hardware, offline.

    Exit codes: 0 done and passed, 1 a gate blocked, 2 usage or data, 3 something is missing, 4 the engine failed,
    130 interrupted.
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line and exit with its code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores the one
            signal.signal(number, signal.default_int_handler)  # ends it as Ctrl-C does: what was judged is kept
    try:
        code = cli.main(arguments, prog_name="gpueval", standalone_mode=False)
    except GpuevalError as error:
        click.echo(f"gpueval: {error.message}", err=True)
        if error.remedy:
            click.echo(f"  {error.remedy}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        click.echo("gpueval: interrupted. What was judged is kept: the same command goes on.", err=True)
        sys.exit(130)
    except Exception as error:  # exit code 1 is a gate's: whatever else goes wrong must not look like one
        if os.environ.get("GPUEVAL_TRACEBACK"):
            raise
        click.echo(f"gpueval: internal error: {type(error).__name__}: {error}", err=True)
        click.echo("  Please report it with the output of the same command under GPUEVAL_TRACEBACK=1.", err=True)
        sys.exit(4)
    sys.exit(code if isinstance(code, int) else 0)
