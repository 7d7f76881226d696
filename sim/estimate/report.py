"""The page of the estimate: tables in Markdown, the same bytes every time."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from gen.kernels.program import build
from gen.models.model import Attention, FeedForward, Linear, Model
from gen.mx import MXTensor
from rtl.config import PRESETS, TileConfig
from rtl.formats import Format
from sim.estimate.latencies import Latencies, Options
from sim.estimate.machine import Result, replay
from sim.estimate.trace import Op, record
from sim.estimate.workloads import WORKLOADS, gptoss
from sim.session import Session
from sim.traffic import DecodeTraffic

CONTEXT = 64
"""Positions that the counted token sees, and tokens of the counted prompt."""

DECODE_TARGETS = 0.85, 0.95
PREFILL_TARGET = 0.80


@dataclass(frozen=True)
class Case:
    """A model, the trace of one decoded token, and what that token needs.

    Attributes
    ----------
    model
        Quantised.
    config
        Of the tile.
    ops
        Trace.
    needed
        Beats that must move, see `sim.traffic`.
    """

    model: Model
    config: TileConfig
    ops: Sequence[Op]
    needed: float

    def fraction(self, result: Result) -> float:
        """Return the fraction of the roofline."""
        return self.needed / result.cycles


def decode(model: Model, config: TileConfig) -> Case:
    """Return the last token of a context of `CONTEXT`, behind a cache that holds the others."""
    program = build(model, config)
    session = Session(program)
    tokens = [1 + i for i in range(CONTEXT)]
    session.append(tokens[:-1])
    ops = record(session, tokens[-1:], program)
    return Case(model, config, ops, DecodeTraffic(model, CONTEXT).bytes / config.beat_bytes)


def prefill(model: Model, config: TileConfig) -> Case:
    """Return a prompt of `CONTEXT` tokens; needed are the cycles of a full array."""
    program = build(model, config)
    ops = record(Session(program), [1 + i for i in range(CONTEXT)], program)
    return Case(model, config, ops, useful_planes(model, CONTEXT) / config.macs_per_cycle)


def useful_planes(model: Model, tokens: int) -> int:
    """Return the multiply-accumulates of a prompt, times 4x4 planes; one token has logits."""
    total = _linear(model.head)
    for layer in model.layers:
        total += tokens * (_network(layer.feed_forward) + _projections(layer.attention))
        total += _scores(layer.attention, tokens)
    return total


def _linear(linear: Linear) -> int:
    assert isinstance(linear.weights, MXTensor)
    outputs, inputs = linear.shape
    return outputs * inputs * _planes(linear.weights.format, linear.activation.format)


def _planes(a: Format, b: Format) -> int:
    return a.planes * b.planes


def _projections(attention: Attention) -> int:
    parts = attention.query, attention.key, attention.value, attention.output
    return sum(map(_linear, parts))


def _network(network: FeedForward) -> int:
    chosen = network.experts[: network.router.top_k if network.router else 1]
    total = sum(_linear(m) for e in chosen for m in (e.gate, e.up, e.down))
    return total + (_linear(network.router.linear) if network.router else 0)


def _scores(a: Attention, tokens: int) -> int:
    window = a.window or tokens
    seen = sum(min(p + 1, window) for p in range(tokens))
    planes = _planes(a.queries.format, a.keys.format) + _planes(
        a.probabilities.format, a.values.format
    )
    return seen * a.heads * a.head * planes


# --- what is varied ---


def variants(config: TileConfig) -> Iterator[tuple[str, TileConfig, Latencies, Options]]:
    """Yield what is changed, and everything after the change."""
    t, on = Latencies(), Options()
    yield "as planned", config, t, on
    yield "no chaining", config, t, replace(on, chain=False)
    yield "no pairing", config, t, replace(on, pair=False)
    yield "no prefetch", config, t, replace(on, prefetch=False)
    yield "none of the three", config, t, Options(False, False, False)
    for window in (1, 2, 4, 16):
        yield f"issue_window {window}", config.replace(issue_window=window), t, on
    for words in (1, 2, 8, 16):
        yield f"{words} words fetched per cycle", config, replace(t, fetch_words=words), on
    for size in (1, 2, 8, 16):
        yield f"stream_bytes {size} KiB", config.replace(stream_bytes=size << 10), t, on
    for lanes in (2, 8):
        yield f"vec_lanes {lanes}", config.replace(vec_lanes=lanes), t, on
    double = Latencies(
        **{
            name: 2 * getattr(t, name)
            for name in ("add", "multiply", "exp2", "reciprocal", "rsqrt")
        }
    )
    yield "arithmetic twice as deep", config, double, on
    yield "memory latency 114", config, replace(t, hbm=2 * t.hbm), on
    worst = replace(double, fetch_words=1, hbm=2 * t.hbm, issue=4, branch=6, scalar_read=6)
    yield "all of these delays, 1 word, no chaining", config, worst, replace(on, chain=False)
    yield "memory loses 1 cycle in 50", config, replace(t, hbm_lost=50), on
    yield "memory loses no cycle", config, replace(t, hbm_lost=1 << 40), on


def page() -> Iterator[str]:
    """Yield the lines of ``docs/estimate.md``."""
    config = PRESETS["small"]
    cases = {name: decode(make(), config) for name, make in WORKLOADS.items()}
    results = {name: replay(case.ops, config) for name, case in cases.items()}
    yield from INTRODUCTION.splitlines()
    yield from _figures(config, cases, results)
    for name, case in cases.items():
        yield from _phases(name, case, results[name])
    yield from _sensitivity(config, cases)
    yield from _shares(config)
    yield from _latencies()


INTRODUCTION = """\
# A cycle estimate before the hardware

Written by `python -m sim.estimate > docs/estimate.md`; do not edit. It tells whether instruction
set, programs and engines can reach the figures of the tile, and what costs most on the way there.
Once the tile exists, `jalapeno bench` measures it and this page is history.

A program runs on the interpreter, which records what every instruction does; a model of the tile
then replays the trace cycle by cycle. Its front end decodes one instruction per cycle, in order;
the window issues out of order; the matrix engine streams operands ahead of their activations, as
far as its buffer goes, and takes two beats at once where spare lanes pair; loads, appends and the
stream share one bus. Every delay is listed at the end. The model rests on these assumptions about
the core, which the hardware has to keep:

- the descriptor of a `matrix` reaches the fetch side when it enters the window, not when its
  activations are ready (this is what *no prefetch* in the last table takes away);
- a stream waits only for fences before it, and a fence only for the acceptance of stores;
- scalar code runs ahead: macro-ops take the values of scalar registers into the window;
- vector instructions follow each other in the unit with a bubble of one cycle.

*Needed* is what must move at least, each byte once, without padding (`sim.traffic`); refresh alone
keeps a tile from more than the share of cycles the bus works. L1 is empty when a token begins.
"""


def _figures(
    config: TileConfig, cases: dict[str, Case], results: dict[str, Result]
) -> Iterator[str]:
    yield ""
    yield "## Figures"
    yield ""
    yield "| figure | workload | needed | cycles | value | if the bus never idled | target |"
    yield "|---|---|--:|--:|--:|--:|---|"

    def row(figure: str, name: str, case: Case, result: Result, unit: str, target: str) -> str:
        ideal = case.needed / (result.cycles - result.bus["idle"])
        return (
            f"| `{figure}` | {name} | {case.needed:,.0f} {unit} | {result.cycles:,} "
            f"| {case.fraction(result):.3f} | {ideal:.3f} | {target} |"
        )

    def verdict(value: float, *targets: float) -> str:
        return ", then ".join(
            f"≥ {target:.2f}: {'yes' if value >= target else 'no'}" for target in targets
        )

    for name, case in cases.items():
        counts = not name.startswith("stories")
        target = verdict(case.fraction(results[name]), *DECODE_TARGETS) if counts else ""
        yield row("tile.decode_roofline", name, case, results[name], "beats", target)
    case = prefill(WORKLOADS["glassllm"](), config)
    result = replay(case.ops, config)
    target = verdict(case.fraction(result), PREFILL_TARGET)
    yield row("tile.prefill_peak", "glassllm", case, result, "full cycles", target)
    yield ""


def _phases(name: str, case: Case, result: Result) -> Iterator[str]:
    beats: Counter[str] = Counter()
    instructions: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for op in case.ops:
        instructions[op.phase] += 1
        words[op.phase] += op.words
        beats[op.phase] += op.o.beats if op.name == "matrix" else 0
    causes = list(dict.fromkeys(cause for _, cause in sorted(result.lost)))
    yield f"## {name}: one token, by phase"
    yield ""
    yield f"| phase | instructions | words | beats | vector passes | {' | '.join(causes)} |"
    yield "|---" + "|--:" * (4 + len(causes)) + "|"
    for phase in instructions:
        lost = [result.lost[phase, cause] for cause in causes]
        numbers = [instructions[phase], words[phase], beats[phase], result.passes[phase], *lost]
        yield f"| {phase} | " + " | ".join(f"{n:,}" if n else "" for n in numbers) + " |"
    totals = [sum(result.lost[p, cause] for p in instructions) for cause in causes]
    numbers = [c.total() for c in (instructions, words, beats, result.passes)] + totals
    yield "| all | " + " | ".join(f"{n:,}" for n in numbers) + " |"
    yield ""
    yield (
        "Columns behind the passes are cycles in which the bus brings no operand, by what it does "
        "or waits for, in the phase of that."
    )
    yield (
        f"{result.cycles:,} cycles: the bus brings {result.bus['stream']:,} beats of operands; the "
        f"array works in {result.steps:,} cycles, in {result.paired:,} of them on two beats."
    )
    yield ""


def _sensitivity(config: TileConfig, cases: dict[str, Case]) -> Iterator[str]:
    yield "## What each choice is worth"
    yield ""
    yield f"| change | {' | '.join(cases)} |"
    yield "|---" + "|--:" * len(cases) + "|"
    for what, changed, latencies, options in variants(config):
        values = []
        for case in cases.values():
            values.append(case.fraction(replay(case.ops, changed, latencies, options)))
        yield f"| {what} | " + " | ".join(f"{value:.3f}" for value in values) + " |"
    yield ""


def _shares(config: TileConfig) -> Iterator[str]:
    """Yield what becomes of a tile that has four times the bandwidth."""
    wide = config.replace(pseudo_channels=4, stream_bytes=4 * config.stream_bytes)
    models = {"glassllm": WORKLOADS["glassllm"](), "gpt-oss-shaped layer of 512": gptoss(512)}
    cases = [decode(model, wide) for model in models.values()]
    on = Options()
    yield "## A quarter of the beats"
    yield ""
    yield (
        "On four tiles each has a quarter of the beats and nearly all of the phases between them. "
        "So has one tile with four pseudo-channels, without what tiles say to each other."
    )
    yield ""
    yield f"| change | {' | '.join(models)} |"
    yield "|---" + "|--:" * len(models) + "|"
    for what, changed, options in (
        ("as planned", wide, on),
        ("no chaining", wide, replace(on, chain=False)),
        ("no pairing", wide, replace(on, pair=False)),
        ("no prefetch", wide, replace(on, prefetch=False)),
        ("vec_lanes 8", wide.replace(vec_lanes=8), on),
    ):
        values = [case.fraction(replay(case.ops, changed, options=options)) for case in cases]
        yield f"| {what} | " + " | ".join(f"{value:.3f}" for value in values) + " |"
    yield ""


def _latencies() -> Iterator[str]:
    yield "## Delays"
    yield ""
    yield "| name | value | what |"
    yield "|---|--:|---|"
    described = inspect.cleandoc(Latencies.__doc__ or "").partition("----------\n")[2]
    about: dict[str, str] = {}
    names: list[str] = []
    for line in described.splitlines():
        if line.startswith(" "):
            about |= {name: f"{about[name]} {line.strip()}".strip() for name in names}
        else:
            names = line.split(", ")
            about |= dict.fromkeys(names, "")
    for item in fields(Latencies):
        yield f"| `{item.name}` | {item.default} | {about[item.name]} |"
