"""``gpueval testset``: make a set of questions from documents, check one, mend one, have people look at one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from gpueval.cli.progress import ProgressBar
from gpueval.cli.words import model_on_server, names_in, print_json, write_file
from gpueval.errors import UsageError
from gpueval.report.testset import card_markdown, show_card
from gpueval.testset.asks import LENGTHS, STYLES, Manner
from gpueval.testset.chunks import CHUNK_CHARACTERS
from gpueval.testset.examine import check_testset
from gpueval.testset.folder import SET
from gpueval.testset.kinds import DEFAULT_MIX, parse_mix
from gpueval.testset.make import MOST_WRITTEN, make_testset
from gpueval.testset.review import read_sheet, write_sheet
from gpueval.testset.update import CHANGE_WORDS, STALE, Change, by_change, update_testset

_MAKE = "make"


class _Group(click.Group):
    """Takes ``gpueval testset FOLDER …`` as ``gpueval testset make FOLDER …``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_MAKE, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Group)
def testset() -> None:
    """Questions with answers and evidence from your own documents, checked one by one.

    gpueval testset FOLDER … is short for gpueval testset make FOLDER ….
    """


_chunk = click.option(
    "--chunk",
    type=click.IntRange(100),
    default=CHUNK_CHARACTERS,
    show_default=True,
    help="Longest chunk of a document, characters.",
)


def _models(command: Any) -> Any:
    """Add the options of the models, alike for every command that asks one."""
    for option in reversed(
        (
            click.option("--judge", required=True, help="Model folder or URL of an OpenAI-compatible server (…/v1)."),
            click.option(
                "--embedder", required=True, type=click.Path(path_type=Path), help="Sentence-transformers folder."
            ),
            click.option(
                "--engine", type=click.Choice(["vllm", "transformers"]), help="For a folder.  [default: vllm]"
            ),
            click.option("--judge-model", help="Model name on the judge's server.  [default: the first it lists]"),
            click.option("--device", help="Device of the embedding model: cpu, cuda or mps.  [default: automatic]"),
            click.option("--json", "as_json", is_flag=True, help="Print as JSON."),
            click.option("--quiet", is_flag=True, help="No progress."),
        )
    ):
        command = option(command)
    return command


@testset.command(_MAKE)
@click.argument("corpus", type=click.Path(path_type=Path))
@click.option("-n", "n", type=click.IntRange(1), default=100, show_default=True, help="Items wanted.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the set.  [default: testsets/NAME-OF-FOLDER]")
@click.option(
    "--mix",
    default="",
    help="KIND=WEIGHT,…  [default: " + ",".join(f"{kind}={weight:g}" for kind, weight in DEFAULT_MIX.items()) + "]",
)
@click.option("--style", default=STYLES[0], show_default=True, help=f"In turn, by commas: {', '.join(STYLES)}.")
@click.option("--length", default="", help=f"In turn, by commas: {', '.join(LENGTHS)}.  [default: as it comes]")
@click.option("--persona", multiple=True, help='Who asks, such as "a new employee"; several take turns.')
@click.option("--language", default="", help="Language of questions and answers.  [default: that of the documents]")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides what is asked about.")
@_chunk
@click.option("--no-check", is_flag=True, help="Keep everything that can be read, to see what the checks are worth.")
@click.option(
    "--most-written",
    type=click.IntRange(1),
    default=MOST_WRITTEN,
    show_default=True,
    help="Questions written of a kind per one that is wanted, at most.",
)
@_models
def make(
    corpus: Path,
    n: int,
    out: Path | None,
    mix: str,
    style: str,
    length: str,
    persona: tuple[str, ...],
    language: str,
    seed: int,
    chunk: int,
    no_check: bool,
    most_written: int,
    judge: str,
    embedder: Path,
    engine: str | None,
    judge_model: str | None,
    device: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make a test set from the documents in CORPUS: text, Markdown, HTML, PDF, Word.

    The judge writes questions, answers and checks them; what fails a check is dropped with its reason. Leaves
    testset.jsonl, dropped.jsonl, a card, and corpus, queries and judgments as gpueval retrieve reads them. Kill it at
    any moment: the same command goes on.
    """
    folder = out or Path("testsets") / corpus.resolve().name
    with ProgressBar(quiet=quiet) as progress:
        card = make_testset(
            corpus,
            n,
            judge=judge,
            embedder=embedder,
            out=folder,
            engine=engine,
            engine_options=model_on_server(judge, judge_model),
            device=device,
            progress=progress,
            mix=parse_mix(mix),
            manners=manners(style, length, persona, language),
            seed=seed,
            chunk_characters=chunk,
            check=not no_check,
            most_written=most_written,
        ).to_dict()
        write_file(folder / "card.md", card_markdown(card))
    if as_json:
        print_json(card)
        return
    show_card(Console(), card)
    click.echo(f"test set: {folder}/testset.jsonl", err=True)


@testset.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--corpus", required=True, type=click.Path(path_type=Path), help=".jsonl (id, text), or documents.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for what is found.  [default: checks/NAME-OF-FILE]"
)
@_chunk
@_models
def check(
    file: Path,
    corpus: Path,
    out: Path | None,
    chunk: int,
    judge: str,
    embedder: Path,
    engine: str | None,
    judge_model: str | None,
    device: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Hold a set made by hand against every check: JSON lines with id, question, reference and relevant_ids.

    Says per item what is wrong with it, and the set's solvability: context recall with the true evidence. Drops
    nothing. Exit code 0 whatever is found.
    """
    name = file.resolve().parent.name if file.name == SET else file.name.split(".")[0]
    folder = out or Path("checks") / name
    with ProgressBar(quiet=quiet) as progress:
        found, checked = check_testset(
            file,
            corpus,
            judge=judge,
            embedder=embedder,
            out=folder,
            chunk_characters=chunk,
            engine=engine,
            engine_options=model_on_server(judge, judge_model),
            device=device,
            progress=progress,
        )
    problems = {one.item.id: list(one.item.problems) for one in checked if one.item.problems}
    if as_json:
        print_json({"card": found.to_dict(), "problems": problems})
        return
    console = Console()
    show_card(console, found.to_dict())
    for name, reasons in problems.items():
        click.echo(f"{name}: {'; '.join(reasons)}")
    click.echo(f"checked items: {folder}/checked.jsonl", err=True)


@testset.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("corpus", type=click.Path(path_type=Path))
@click.option("--chunk", type=click.IntRange(100), help="Longest chunk, characters.  [default: as the set was made]")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def update(folder: Path, corpus: Path, chunk: int | None, as_json: bool) -> None:
    """Hold the set in FOLDER against the documents in CORPUS as they are now; needs no model.

    Items whose evidence changed or is gone move to stale.jsonl; evidence that stands elsewhere gets its new place.
    """
    found = update_testset(folder, corpus, chunk)
    if as_json:
        print_json({"changes": found.changes, "n_kept": found.n_kept})
        return
    for change, names in by_change(found).items():
        click.echo(f"{len(names):6,} {change}: {CHANGE_WORDS[change]}")
        if change not in (Change.SAME, Change.MOVED):
            click.echo(f"       {', '.join(names)}")
    click.echo(f"{found.n_kept:,} items stay in {folder}/{SET}; the others are in {STALE}", err=True)


@testset.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--sheet", type=click.Path(path_type=Path), help="Write the sheet: a .html or .csv file.")
@click.option("--read", "filled", type=click.Path(path_type=Path), help="Read a filled sheet (.csv) back.")
def review(folder: Path, sheet: Path | None, filled: Path | None) -> None:
    """Have people look at the set in FOLDER: write a sheet, and read it back.

    In the sheet a verdict is keep, drop or nothing; a changed question or reference replaces the old one. Dropped items
    go to rejected.jsonl.
    """
    if (sheet is None) == (filled is None):
        raise UsageError("Give --sheet FILE to write a sheet, or --read FILE to read one back.")
    if sheet is not None:
        click.echo(f"{write_sheet(folder, sheet):,} items in {sheet}", err=True)
    if filled is not None:
        done = read_sheet(folder, filled)
        click.echo(
            f"{done.n_kept:,} kept ({done.n_mended:,} with another wording), {done.n_dropped:,} dropped, "
            f"{done.n_open:,} without a verdict"
        )


def manners(style: str, length: str, personas: tuple[str, ...], language: str) -> list[Manner]:
    """Read ways of wording; lists take turns together, the shorter ones from their beginning again.

    Raises:
        UsageError: A style or length is unknown.
    """
    styles, lengths = known(style, STYLES, "--style") or ["question"], known(length, LENGTHS, "--length") or [""]
    people = list(personas) or [""]
    turns = max(len(styles), len(lengths), len(people))
    return [
        Manner(styles[i % len(styles)], lengths[i % len(lengths)], people[i % len(people)], language)
        for i in range(turns)
    ]


def known(text: str, names: tuple[str, ...], option: str) -> list[str]:
    """Read a list of known names.

    Raises:
        UsageError: One is unknown.
    """
    found = names_in(text)
    if unknown := [name for name in found if name not in names]:
        raise UsageError(f"{option}: '{unknown[0]}' is not known.", f"Known: {', '.join(names)}.")
    return found
