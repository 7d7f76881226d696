"""The command ``jalapeno``.

Hardware, simulators and benches are imported by the commands that need them, so that help and
errors come at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from gen.configuration import file_schema, load
from rtl.config import DEFAULT_PRESET, PRESETS, TileConfig
from sim.options import with_formats
from sim.progress import BarProgress

if TYPE_CHECKING:
    from sim.run import Generation

ROOT = Path(__file__).resolve().parents[1]
"""The checkout, which an editable installation runs from."""

FAILED = 1
REFUSED = 2
INTERRUPTED = 130

PLAIN_WIDTH = 160
"""Width of tables that go into a file or a pipe."""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help=f"Configuration to start from: {', '.join(PRESETS)}; {DEFAULT_PRESET} if left out.",
        rich_help_panel="Configuration",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE.toml",
        help="Fields to change, and optionally `preset`, from a TOML file.",
        rich_help_panel="Configuration",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Field to change, such as lanes=8 or mesh=4x2; as often as you like.",
        rich_help_panel="Configuration",
    ),
]
MODELS = "`glassllm`, `glassllm:pt`, a llama2.c file (.bin), a Hugging Face directory or an image"
ModelName = Annotated[str, typer.Argument(metavar="MODEL", help=f"Model: {MODELS}.")]
TokenizerFile = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer", metavar="FILE", help="Tokenizer, where it is not beside the model."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"jalapeno-rtl {version('jalapeno-rtl')}")
        raise typer.Exit


@app.callback()
def jalapeno(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Generate, verify and measure a scaled-down Jalapeño LLM-inference tile.

    New here? **jalapeno demo** shows it at work, and **jalapeno info** explains every parameter.
    Parameters come from a preset, then a file, then single settings; later ones win.
    """


@app.command()
def generate(
    block: Annotated[
        str | None,
        typer.Argument(metavar="BLOCK", help="Block to generate; all of them if left out."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where to put the directory.")
    ] = Path("build"),
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write the Verilog of a block, and what goes with it.

    The directory **build/BLOCK-HASH** receives SystemVerilog, manifest.json (configuration, ports,
    registers, counters, checksums), a C header, a FuseSoC core file and lint waivers. The same
    configuration always gives the same bytes.
    """
    from gen import package
    from gen.blocks import BLOCKS, find

    configuration = load(preset, config, settings or ())
    names = [find(block).name] if block else list(BLOCKS)
    packages = []
    progress = _progress()
    for name in names:
        with progress.task(f"generating {name}"):
            packages.append(package.generate(name, configuration, out))
    if as_json:
        _print_json(
            {
                "packages": [
                    {"directory": str(built.directory), "manifest": built.manifest}
                    for built in packages
                ]
            }
        )
        return
    for built in packages:
        table = Table("file", "bytes", title=str(built.directory), title_justify="left")
        table.columns[1].justify = "right"
        for file in sorted(built.directory.iterdir()):
            table.add_row(file.name, f"{file.stat().st_size:,}")
        _console().print(table)


@app.command("test")
def run_tests(
    block: Annotated[
        str | None,
        typer.Argument(metavar="BLOCK", help="Block to test; all of them if left out."),
    ] = None,
    waves: Annotated[
        bool, typer.Option("--waves", help="Record waveforms, and say where they are.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, help="Seed of the random stimulus; a failure prints its own."
        ),
    ] = None,
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
) -> None:
    """Run the cocotb tests of a block on its Verilog under Verilator.

    Without configuration options the tests run on configurations of their own choice, odd and
    minimal ones among them; with any, on that configuration. The first run of a configuration
    compiles a simulator, which takes a minute; later ones find it in a cache.
    """
    from gen.blocks import find

    tests = ROOT / "tests" / "tb"
    target = tests / f"test_{find(block).name}.py" if block else tests
    if not target.exists():
        _refuse(f"{target} does not exist; run this from a checkout installed with pip install -e.")
    environment = dict(os.environ)
    if preset or config or settings:
        environment["JALAPENO_CONFIG"] = load(preset, config, settings or ()).to_json()
    if seed is not None:
        environment["JALAPENO_SEED"] = str(seed)
    command = [sys.executable, "-m", "pytest", str(target)]
    records = Path("build", "test", block or "all").absolute()
    if waves:
        environment["JALAPENO_WAVES"] = "1"
        records.parent.mkdir(parents=True, exist_ok=True)
        command.append(f"--basetemp={records}")
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if waves:
        for dump in sorted(records.rglob("*.vcd")):
            print(f"waveform: {dump}")
    raise typer.Exit(status)


@app.command()
def bench(
    block: Annotated[str | None, typer.Argument(metavar="BLOCK", help="Block to measure.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Measure every block; one that fails is told as such.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if a target is missed.")
    ] = False,
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Measure a block: cycles on its Verilog under Verilator, size by Yosys.

    Every figure is measured by this very run and stands beside its bound and its target.
    """
    from sim import bench as benches
    from sim.figures import report

    if everything and block is not None:
        _refuse(f"--all measures {block} too; give one or the other.")
    if block is None:
        if not everything:
            _refuse("Missing argument 'BLOCK'; see jalapeno --help.")
        _bench_all(load(preset, config, settings or ()), check, as_json)
        return
    chosen = benches.find(block)
    configuration = load(preset, config, settings or ())
    result = report(block, configuration, chosen.run(configuration, _progress()))
    if as_json:
        _print_json(result.to_dict())
    else:
        _console().print(result.to_table())
    if check and not result.met:
        raise typer.Exit(FAILED)


@app.command()
def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What to measure.")],
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="FILE",
            help="Where results are, and go; build/sweeps/NAME.sqlite if left out.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", min=1, help="Processes here; one per core if left out."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", metavar="ADDRESS", help="Dask scheduler of a cluster to use instead."
        ),
    ] = None,
    retry: Annotated[
        bool, typer.Option("--retry", help="Measure points again that failed before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the points and measure nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure many configurations and workloads, into one table; go on where it was interrupted.

    Each point is generated, read by two linters, synthesised, and run under Verilator with its
    results checked. A result is stored as soon as it is there and never computed again; a point
    that fails is a row with its reason. docs/sweeps.md explains the file; **jalapeno report** shows
    the results.
    """
    from sim.sweep import command
    from sim.sweep.read import spec_from_file

    wanted = spec_from_file(spec)
    path = store or Path("build", "sweeps", f"{wanted.name}.sqlite")
    if dry_run:
        listed = command.plan(wanted, path)
        _print_rows(listed, "points", as_json)
        return
    rows = command.run(wanted, path, _progress(), scheduler=scheduler, workers=workers, retry=retry)
    if as_json:
        _print_json(command.facts(wanted, path, rows))
        return
    _print_rows(command.table(rows), wanted.title or wanted.name, as_json=False)
    print(command.summary(path, rows), file=sys.stderr)


@app.command("report")
def write_report(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="What a sweep wrote.")],
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Where to write the page.")
    ] = Path("build", "report"),
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Headline of the page.")
    ] = None,
    energy: Annotated[
        Path | None,
        typer.Option("--energy", metavar="FILE.toml", help="Another table of energies."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the results of sweeps: one HTML page that needs nothing else, PNGs, and a CSV table.

    Pareto fronts of area against throughput and latency, rooflines, parallel coordinates, and
    tables; points that failed are listed with their reasons.
    """
    from sim.report import write

    with _progress().task("drawing"):
        files = write(store, output, title=title, energy=energy)
    if as_json:
        _print_json({"files": [str(file) for file in files]})
        return
    for file in files:
        print(file)


@app.command()
def demo(
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Let a pretrained language model write on the hardware, and compare every bit with numpy.

    Generates the Verilog of a tile, compiles it with Verilator, runs the model on it and says what
    came out. Needs nothing but a C++ compiler.
    """
    from sim import demo as demonstration
    from sim.figures import report
    from sim.run import Mismatch

    configuration = load(preset, config, settings or ())
    # Explanations are for people; with --json only the object goes to standard output.
    console = Console(stderr=True, quiet=True) if as_json else _console()
    try:
        figures = demonstration.run(configuration, _progress(), console)
    except Mismatch as error:
        print(f"jalapeno: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    result = report("demo", configuration, figures)
    if as_json:
        _print_json(result.to_dict())


@app.command()
@with_formats
def run(
    model: ModelName,
    prompt: Annotated[str, typer.Option("--prompt", metavar="TEXT", help="Text to continue.")] = "",
    tokens: Annotated[
        int, typer.Option("--tokens", metavar="N", min=1, help="Tokens to add at most.")
    ] = 64,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="NAME",
            envvar="JALAPENO_ENGINE",
            help="What runs the model: rtl, interpreter or golden.",
        ),
    ] = "rtl",
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Compare every logit with golden; exit with 1 if one differs."
        ),
    ] = False,
    temperature: Annotated[
        float,
        typer.Option(
            "--temperature", metavar="T", min=0, help="Pick tokens at random; 0 is greedy."
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of the random choice.")
    ] = 0,
    tokenizer: TokenizerFile = None,
    formats: dict[str, str] | None = None,
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Continue a text with a language model, and print the tokens as they come.

    It runs on the tile's hardware under Verilator. The first run of a configuration compiles the
    simulation, which takes a minute or two; later ones find it in a cache.

    The same model, formats and prompt give the same bits of every logit on every engine and every
    configuration; **--check** shows it.
    """
    from gen.models.library import open_model
    from sim import engines
    from sim import run as running

    configuration = load(preset, config, settings or ())
    make, make_golden = engines.find(engine), engines.find(engines.REFERENCE)
    with _progress().task("reading the model"):
        opened = open_model(model, formats, tokenizer)
    begun = running.Prompt.of(prompt, opened)
    # The last token that is added need not be appended.
    positions = len(begun.tokens) + min(tokens, begun.room) - 1
    with _progress().task(f"preparing the engine {engine}"):
        runner = make(opened.model, configuration, positions)
    checked = None
    if check:
        golden = make_golden(opened.model, configuration, positions)
        runner = checked = running.CheckedEngine(engine, runner, golden)
    choose = running.sampler(temperature, seed)
    generation = running.Generation(runner, begun, tokens, choose)
    try:
        result = _show(generation, None if as_json else prompt)
        figures, activity = runner.figures(), runner.activity()
    except running.Mismatch as error:
        print(f"jalapeno: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    finally:
        runner.close()
    compared = checked.compared if checked else 0
    if as_json:
        _print_json(
            {
                "model": opened.model.name,
                "engine": engine,
                "configuration": configuration.hash,
                "formats": opened.formats.to_dict(),
                "prompt": {"text": prompt, "tokens": begun.tokens},
                **result,
                "logits_compared": compared,
                "figures": [figure.to_dict() for figure in figures],
                "activity": [
                    {"part": a.part, "active": a.active, "dark": a.dark} for a in activity
                ],
            }
        )
        return
    for a in activity:
        print(f"{a.part:12} {a.strip} {a.active:4.0%} {a.work}", file=sys.stderr)
    for figure in figures:
        print(f"{figure.name}: {figure.value:,.6g} {figure.unit}".rstrip(), file=sys.stderr)
    print(
        f"{len(result['tokens'])} tokens, {result['tokens_per_second']:.1f} per second, on {engine}"
        f"{f'; all {compared:,} logits have the bits of golden' if check else ''}.",
        file=sys.stderr,
    )


@app.command("import")
@with_formats
def import_model(
    model: ModelName,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.safetensors", help="Image to write.")],
    tokenizer: TokenizerFile = None,
    formats: dict[str, str] | None = None,
    as_json: AsJson = False,
) -> None:
    """Quantise a model and write it, its tokenizer included, into one image file.

    The image can be run in place of the model. The same model and formats give the same bytes.
    """
    from gen.models import image
    from gen.models.library import open_model

    progress = _progress()
    with progress.task("reading the model"):
        opened = open_model(model, formats, tokenizer)
    with progress.task("writing the image"):
        digest = image.save(out, *opened)
    facts = {"file": str(out), "bytes": out.stat().st_size, "hash": digest}
    if as_json:
        _print_json(facts | {"formats": opened.formats.to_dict()})
        return
    _console().print(_table("model image", _readable([facts])))


@app.command()
@with_formats
def program(
    model: ModelName,
    listing: Annotated[
        bool, typer.Option("--listing", help="Print every instruction instead.")
    ] = False,
    context: Annotated[
        int | None,
        typer.Option(
            "--context",
            metavar="N",
            min=1,
            help="Positions to have room for; all that the model has if left out.",
        ),
    ] = None,
    tokenizer: TokenizerFile = None,
    formats: dict[str, str] | None = None,
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write the program of a model for one tile, and show where everything is in its memory.

    It is the program that the engine **interpreter** executes. docs/isa.md explains the
    instructions.
    """
    from gen.kernels.program import build
    from gen.models.library import open_model
    from sim.model_info import check_context, program_facts

    configuration = load(preset, config, settings or ())
    with _progress().task("reading the model"):
        opened = open_model(model, formats, tokenizer)
    if context is not None:
        check_context(opened.model, context)
    with _progress().task("writing the program"):
        built = build(opened.model, configuration, capacity=context)
    if listing:
        print(built.program.listing(), end="")
        return
    facts = program_facts(built)
    if as_json:
        _print_json({"model": opened.model.name, "configuration": configuration.hash} | facts)
        return
    sizes = [{"what": name, "value": value} for name, value in facts["program"].items()]
    _console().print(_table(f"program of {opened.model.name}", _readable(sizes)))
    _console().print(_table("memory map", facts["memory"]))


@app.command()
@with_formats
def info(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help=f"Model to explain, if any: {MODELS}.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of configuration files.")
    ] = False,
    context: Annotated[
        int | None,
        typer.Option(
            "--context",
            metavar="N",
            min=1,
            help="Positions a token of the model reads; 64 if left out.",
        ),
    ] = None,
    tokenizer: TokenizerFile = None,
    formats: dict[str, str] | None = None,
    preset: Preset = None,
    config: ConfigFile = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Explain a configuration: every field, what follows from it, presets, blocks and tools.

    With a model: its shape, formats and size, what must move from memory for a token of it, the
    rate that this allows at 1 GHz, and the place it takes.
    """
    from gen.models.errors import ModelError
    from sim.info import info as gather

    if schema:
        _print_json(file_schema())
        return
    configuration = load(preset, config, settings or ())
    if model is not None:
        _model_info(model, tokenizer, formats, configuration, context, as_json)
        return
    if context is not None or tokenizer is not None or formats:
        raise ModelError("Formats, --context and --tokenizer are about a model; name one.")
    facts = gather(configuration)
    if as_json:
        _print_json(facts)
        return
    console = _console()
    fields = [row | {"value": getattr(configuration, row["name"])} for row in facts["fields"]]
    presets = [
        {"field": row["name"]} | {name: getattr(PRESETS[name], row["name"]) for name in PRESETS}
        for row in facts["fields"]
    ]
    blocks = [{"name": name, "description": text} for name, text in facts["blocks"].items()]
    tools = [{"name": name, "version": text} for name, text in facts["tools"].items()]
    console.print(_table(f"configuration {facts['hash']}", fields))
    console.print(_table("what follows from it", facts["derived"]))
    console.print(_table("presets", presets))
    console.print(_table("blocks", blocks))
    console.print(_table("tools", tools))


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command and exit: 0, 1 if tests or targets failed, 2 if refused, 130 if interrupted.

    Parameters
    ----------
    arguments
        What follows the name of the command; by default that of this process.
    """
    try:
        status = app(arguments, prog_name="jalapeno", standalone_mode=False) or 0
    except typer.TyperException as error:
        complaint = error.format_message().rstrip(".")
        if complaint:
            _refuse(f"{complaint}; see jalapeno --help.")
        status = REFUSED  # No arguments: the help has been printed.
    except KeyboardInterrupt:
        status = INTERRUPTED
    except Exception as error:
        if "JALAPENO_DEBUG" in os.environ:
            raise
        _refuse(_sentence(error))
    if status == INTERRUPTED:
        print("jalapeno: interrupted.", file=sys.stderr)
    sys.exit(status)


def _refuse(sentence: str) -> NoReturn:
    print(f"jalapeno: {sentence}", file=sys.stderr)
    sys.exit(REFUSED)


def _sentence(error: Exception) -> str:
    """Return what to tell the user about `error`."""
    if type(error).__module__.partition(".")[0] in ("rtl", "gen", "sim"):
        return str(error)  # Errors of our own are sentences already.
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({error})." if str(error) else "memory is exhausted."
    kind = type(error).__name__
    return f"internal error ({kind}: {error}); set JALAPENO_DEBUG=1 to see where."


def _show(generation: Generation, prompt: str | None) -> dict[str, Any]:
    """Run a generation, print it as it goes unless `prompt` is ``None``, and return the facts."""
    start = time.perf_counter()
    text, numbers = "", []

    def say(part: str) -> None:
        if prompt is not None:
            print(part, end="", flush=True)

    say(prompt or "")
    try:
        for token in generation:
            numbers.append(token.number)
            text += token.text
            say(token.text)
        text += generation.rest
        say(generation.rest)
    finally:
        say("\n")
    seconds = time.perf_counter() - start
    return {
        "tokens": numbers,
        "text": text,
        "stopped": generation.stopped,
        "seconds": seconds,
        "tokens_per_second": len(numbers) / seconds,
    }


def _model_info(
    name: str,
    tokenizer: Path | None,
    formats: dict[str, str] | None,
    configuration: TileConfig,
    context: int | None,
    as_json: bool,
) -> None:
    from gen.models.library import open_model
    from sim.model_info import model_info

    with _progress().task("reading the model"):
        facts = model_info(open_model(name, formats, tokenizer), configuration, context)
    if as_json:
        _print_json(facts)
        return
    console, decode = _console(), facts["decode"]
    columns = {"model": facts["model"], "configuration": configuration.hash}
    shape = [{"what": what, "value": value} for what, value in (columns | facts["shape"]).items()]
    operands = [{"operands": what, "format": text} for what, text in facts["formats"].items()]
    for title, rows in (
        ("shape", shape),
        ("formats", operands),
        (f"stored; a position adds {facts['kv_bytes_per_token']:,.0f} bytes", facts["stored"]),
        (f"moved for a token at context {decode['context']}", decode["moved"]),
        ("roofline at 1 GHz", decode["roofline"]),
        (f"place in memory, a context of {facts['shape']['context']}", facts["placement"]),
    ):
        console.print(_table(title, _readable(rows)))


def _print_rows(rows: Sequence[dict[str, Any]], title: str, as_json: bool) -> None:
    """Print rows that all have the same keys."""
    if as_json:
        _print_json({title: rows})
    elif rows:
        _console().print(_table(title, _readable(rows)))


def _bench_all(configuration: TileConfig, check: bool, as_json: bool) -> None:
    from sim.bench import all as every

    found = every.run(configuration, _progress())
    if as_json:
        _print_json(found.to_dict())
    else:
        for part in found.parts:
            if isinstance(part, every.Broken):
                print(f"{part.bench} did not run: {part.reason}")
            else:
                _console().print(part.to_table())
    if check and not found.met:
        raise typer.Exit(FAILED)


def _readable(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with their numbers as people write them."""

    def text(value: Any) -> Any:
        match value:
            case float():
                return f"{value:,.1f}".removesuffix(".0")
            case int() if not isinstance(value, bool):
                return f"{value:,}"
        return value

    return [{name: text(value) for name, value in row.items()} for row in rows]


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)


def _progress() -> BarProgress:
    return BarProgress(Console(stderr=True))


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def _table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Return a table with the keys of the first row as its columns."""
    table = Table(*rows[0], title=title, title_justify="left")
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    return table


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)


if __name__ == "__main__":
    main()
