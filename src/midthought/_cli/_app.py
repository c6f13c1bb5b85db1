"""The commands and their options; what they do stands in the module of each.

Only this module knows typer. Faults of usage are said as all others are: ``error:``, ``hint:``,
exit 2.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from midthought import __version__

from . import _check, _demo, _pictures, _policies, _run, _runs
from ._errors import CommandError, explained
from ._requests import Prompt
from ._terminal import Terminal
from ._turn import Interrupted

__all__ = ["help_pages", "main"]

# Their module has moved once (typer 0.29 carries its own click): found by way of the public name.
_UsageError: Any = typer.BadParameter.__bases__[0]
_ClickException: Any = _UsageError.__bases__[0]

app = typer.Typer(
    name="midthought",
    help="Pick a broken LLM reply up mid-thought: recovery policies for streams.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
JournalFile = Annotated[
    str | None,
    typer.Option("--journal", metavar="FILE", help="Append the records of each turn to a file."),
]


TurnId = Annotated[
    str | None, typer.Option("--turn", metavar="ID", help="The beginning of a turn's id.")
]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"midthought {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Say the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    llm: Annotated[
        bool, typer.Option("--llm", help="A real model on this machine instead of the script.")
    ] = False,
    fast: Annotated[bool, typer.Option("--fast", help="As fast as it goes, not to watch.")] = False,
    port: Annotated[
        int, typer.Option(metavar="N", help="Port of the upstream.", show_default="any free one")
    ] = 0,
    journal: JournalFile = None,
    as_json: AsJson = False,
) -> int:
    """Break real HTTP streams and heal them before your eyes.

    A scripted upstream on this machine cuts its replies in several ways; the client heals them
    with a shipped policy. Takes about 15 seconds, needs no key and no network. Exit status 0
    means that every reply came out equal to the uncut one.
    """
    _within("--port", port, 0, 65535)
    options = _demo.Options(fast=fast, port=port, journal=journal, as_json=as_json)
    return (_demo.model if llm else _demo.script)(Terminal(), options)


@app.command(context_settings={"allow_extra_args": True})  # counted here, never repeated
def run(
    context: typer.Context,
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", hidden=True)] = None,
    policy: Annotated[
        str, typer.Option("--policy", "-p", metavar="POLICY", help="Name or TOML file of a policy.")
    ] = "",
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help="The provider's model.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System prompt.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Cap of the reply, in tokens.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Where requests go, without the path.")
    ] = None,
    journal: JournalFile = None,
    as_json: AsJson = False,
) -> int:
    """Run one prompt through a policy.

    With - as PROMPT it is read from stdin. The reply goes to stdout while it arrives, changes of
    state to stderr. Exit status: 0 the turn completed, 1 it failed, 2 wrong input, 130 cancelled
    by Ctrl-C.
    """
    _within("--max-tokens", max_tokens, 1, 10**9)
    if not policy:
        raise CommandError(
            "there is no policy", "name one with -p; 'midthought policies' lists them"
        )
    words = [] if prompt is None else [prompt, *context.args]
    asked = Prompt(_run.prompt_text(words), model, system, max_tokens)
    return _run.run(Terminal(), policy, asked, base_url=base_url, journal=journal, as_json=as_json)


@app.command()
def policies(as_json: AsJson = False) -> int:
    """List the policies that can be named, and where they come from."""
    return _policies.policies(Terminal(), as_json=as_json)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", help="With what it says for this model."),
    ] = None,
) -> int:
    """Write the policy NAME as one TOML file, with all that it inherits.

    NAME is a name, names joined by + (the later lies over the earlier), or a TOML file.
    """
    return _policies.show(Terminal(), name, model)


@app.command()
def schema() -> int:
    """Write the JSON Schema of policy files."""
    return _policies.schema(Terminal())


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="POLICY", hidden=True)] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every policy that the search path holds.")
    ] = False,
    notes: Annotated[
        bool, typer.Option("--notes", help="Show what is worth knowing, and is not wrong.")
    ] = False,
    as_json: AsJson = False,
    sarif: Annotated[
        bool, typer.Option("--sarif", help="One SARIF 2.1.0 log, for code review.")
    ] = False,
) -> int:
    """Prove policies before they ship.

    POLICY is a name, names joined by +, or a TOML file. Looks at every way through the machine
    and at every situation that the rules can tell apart; says what is wrong, where and what to
    do, and how much a turn can cost in the worst case. Exit status: 0 all proved, 1 errors were
    found, 2 what was named is no policy.
    """
    options = {"every": every, "notes": notes, "as_json": as_json, "sarif": sarif}
    return _check.check(Terminal(), names or [], **options)


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", hidden=True)],
    dialect: Annotated[
        str | None, typer.Option(metavar="DIALECT", help="Build on what speaks this wire dialect.")
    ] = None,
    extends: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Build on this policy; + joins several.")
    ] = None,
    to_stdout: Annotated[bool, typer.Option("--stdout", help="Write no file.")] = False,
) -> int:
    """Write a commented policy to begin with.

    It goes to midthought/NAME.toml, where the project's policies are looked for, or to NAME where
    that is a path. A file that is there is never overwritten.
    """
    return _check.new(Terminal(), name, dialect=dialect, extends=extends, to_stdout=to_stdout)


@app.command()
def diagram(
    name: Annotated[str, typer.Argument(metavar="POLICY", hidden=True)],
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORM", help="text, mermaid, dot, svg or png.")
    ] = "text",
    of: Annotated[str, typer.Option("--of", metavar="WHAT", help="machine or ladder.")] = "machine",
    run: Annotated[
        str | None, typer.Option(metavar="FILE", help="Paint the way of a recorded turn.")
    ] = None,
    turn: TurnId = None,
) -> int:
    """Draw a policy: its machine, or the ladder of its rules.

    The ladder shows for each kind of failure which rules answer it, in which order and how often.
    Pictures (svg, png) need the extra 'diagram'; their bytes are the same on every platform.
    """
    return _pictures.diagram(Terminal(), name, form=form, of=of, run=run, turn=turn)


@app.command()
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", hidden=True)],
    after: Annotated[str, typer.Argument(metavar="AFTER", hidden=True)],
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORM", help="text, mermaid or svg.")
    ] = "text",
    as_json: AsJson = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit status 1 if something changed.")
    ] = False,
) -> int:
    """Say what changed in meaning between the policies BEFORE and AFTER.

    Rows of the machine, rules, limits and the worst case; not the text of the files. Pictures show
    added and removed rows in colour.
    """
    return _pictures.diff(
        Terminal(), before, after, form=form, as_json=as_json, exit_code=exit_code
    )


@app.command()
def explain(
    run: Annotated[str, typer.Argument(metavar="RUN.jsonl", hidden=True)],
    turn: TurnId = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write one page with the painted diagram.")
    ] = None,
) -> int:
    """Tell the story of a recorded turn.

    Each change of state, the rules that were looked at and why each did or did not apply, what was
    kept and dropped, and how the texts joined. A run file is written with --journal, or by
    midthought.journal.
    """
    return _runs.explain(Terminal(), run, turn=turn, html=html)


@app.command()
def replay(
    run: Annotated[str, typer.Argument(metavar="RUN.jsonl", hidden=True)],
    policy: Annotated[str, typer.Option(metavar="POLICY", help="The policy to try.")],
    turn: TurnId = None,
    as_json: AsJson = False,
) -> int:
    """Play recorded turns through another policy, and show where it would have differed."""
    return _runs.replayed(Terminal(), run, policy, turn=turn, as_json=as_json)


@app.command(name="simulate")
def simulate_(
    name: Annotated[str, typer.Argument(metavar="POLICY", hidden=True)],
    faults: Annotated[
        str, typer.Option(metavar="FAULTS", help="calm-day, rough-day, or a TOML file.")
    ] = "rough-day",
    turns: Annotated[int, typer.Option(metavar="N", help="How many turns.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed, the same turns.")] = 0,
    sweep: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=1..8", help="Try a range of a setting; once or twice."),
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Plot the sweep as SVG.")] = None,
    as_json: AsJson = False,
) -> int:
    """Try a policy on a fleet of turns in virtual time.

    The machine is the real one; no sockets, no waiting. Compared with two rivals on the same turns:
    restart from scratch, and give up at the first failure.
    """
    return _runs.simulated(
        Terminal(),
        name,
        faults,
        turns=turns,
        seed=seed,
        sweep=sweep or [],
        plot_file=plot,
        as_json=as_json,
    )


def _within(option: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise CommandError(f"{option} is {value}, expected {least} to {most}", "correct the number")


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit status."""
    try:
        status = _run_command(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read has gone; the interpreter must not try to write what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _refuse(CommandError("the disk is full: the output is cut", "make room", 1))
    return status


def _run_command(arguments: Sequence[str]) -> int:
    if not arguments:
        print(help_pages()["midthought"], file=sys.stderr)
        return 2
    command = typer.main.get_command(app)
    try:
        status = command.main(list(arguments), prog_name="midthought", standalone_mode=False)
        return int(status or 0)
    except _UsageError as error:
        return _refuse(_usage(error))
    except _ClickException as error:
        return _refuse(CommandError(error.format_message(), "see midthought --help"))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except Interrupted as error:
        return error.code
    except Exception as error:
        known = explained(error)
        if known is None:
            raise
        return _refuse(known)


def _refuse(error: CommandError) -> int:
    Terminal().error(error.message, error.hint)
    return error.code


def _usage(error: Any) -> CommandError:
    message = str(error.format_message()).rstrip(".")
    where = error.ctx.command_path if error.ctx is not None else "midthought"
    return CommandError(message[:1].lower() + message[1:], f"see {where} --help")


def help_pages() -> dict[str, str]:
    """The help of the program and of each command, by how they are called."""
    command: Any = typer.main.get_command(app)
    with command.make_context("midthought", [], resilient_parsing=True) as root:
        root.terminal_width = 80
        pages = {"midthought": command.get_help(root)}
        for name in command.list_commands(root):
            part = command.get_command(root, name)
            with part.make_context(name, [], parent=root, resilient_parsing=True) as inner:
                inner.terminal_width = 80
                pages[f"midthought {name}"] = part.get_help(inner)
    return pages
