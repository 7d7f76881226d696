"""The cycle estimate on programs of a few instructions, where cycles can be counted by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gen.kernels.program import build
from rtl.config import TileConfig
from rtl.core.isa import OPCODES, LoadKind, MatrixFormat, Operand, Output, Step
from sim.estimate import Latencies, Options, record, replay
from sim.estimate.matrix import operand
from sim.estimate.report import variants
from sim.estimate.trace import follow
from sim.session import Session
from tests.sim.golden.models import quantised

CONFIG = TileConfig()
T = Latencies(hbm_lost=1 << 40)
FP4, INT8 = MatrixFormat.MXFP4, MatrixFormat.MXINT8


def program(*lines):
    """Instructions one after the other, all operands immediate."""
    seen, pc = [], 0
    for name, fields in lines:
        instruction = OPCODES[name](**fields)
        seen.append((pc, instruction, SimpleNamespace(**instruction.values)))
        pc += instruction.opcode.words
    return follow(seen)


def matrix(outputs, blocks=1, **fields):
    beats, _ = operand(outputs, blocks, 1, False, CONFIG.pseudo_channels, CONFIG.acc_depth)
    own = {"address": 0, "beats": len(beats), "outputs": outputs, "blocks": blocks}
    own |= {"last": 32 * blocks - 1, "activation": INT8, "weight": FP4, "rows": 1}
    return "matrix", own | {"source": 0, "maxima": 0, "to": 1} | fields


def vector(a, to, columns=128, **fields):
    own = {"a": a, "rows": 1, "columns": columns, "output": Output.WORDS, "to": to}
    return "vector", own | {"b_step": Step.ADD} | fields


def run(*lines, config=CONFIG, t=T, options=None):
    ops = program(*lines)
    return replay(ops, config, t, options), ops


def fetched(name, t=T):
    """Cycle in which the first instruction of a program is decoded."""
    return -(-OPCODES[name].words // t.fetch_words) - 1


def test_a_product_takes_its_beats_and_the_way_in_and_out():
    result, (product, _) = run(matrix(32))
    first = fetched("matrix") + 1  # the cycle after the descriptor has come
    arrived = first + 1 + T.hbm + T.array_fill  # behind a beat of scales
    assert product.begun == arrived
    # 16 elements, another beat of scales, 16 elements; the drain is right behind.
    assert product.done == arrived + 32 + T.array + T.drain
    assert result.bus["stream"] == 34
    assert result.steps == 32


def test_each_beat_more_takes_a_cycle():
    one, _ = run(matrix(32, 4))
    two, _ = run(matrix(64, 4))
    assert two.cycles - one.cycles == len(operand(32, 4, 1, False, 1, 32)[0])


def test_a_vector_instruction_takes_its_passes_and_the_depth_of_its_steps():
    _, (op, _) = run(vector(0, 1, 128))
    issued = fetched("vector") + 1
    assert op.issued == issued
    assert op.begun == issued + T.issue
    last = op.begun + 128 // CONFIG.vec_lanes - 1
    assert op.done == last + T.read + T.add + T.write


def test_independent_engines_overlap():
    alone, _ = run(matrix(128, 4))
    both, _ = run(matrix(128, 4), vector(2, 3))
    assert both.cycles == alone.cycles


def test_dependent_instructions_do_not():
    _, (product, sum_, _) = run(matrix(128, 4), vector(1, 2), options=Options(chain=False))
    assert sum_.issued == product.done + T.complete
    _, (product, sum_, _) = run(matrix(128, 4), vector(1, 2))
    # Chained, the first three groups of results pass while the last one is made.
    assert sum_.begun < product.done
    assert sum_.done >= product.done + T.read + T.add


def test_a_window_of_one_is_in_order():
    lines = (
        ("load", {"to": 1, "rows": 1, "columns": 32, "address": 0}),
        vector(1, 2),
        vector(3, 4),
    )
    _, (_, first, second, _) = run(*lines)
    assert second.issued < first.issued
    _, (_, first, second, _) = run(*lines, config=CONFIG.replace(issue_window=1))
    assert first.issued < second.issued


def test_a_load_hits_what_was_loaded():
    lines = [("load", {"to": to, "rows": 1, "columns": 8, "address": 64}) for to in (1, 2)]
    _, (miss, hit, _) = run(*lines)
    assert miss.done == miss.issued + T.issue + 1 + T.hbm - 1 + T.l1 + T.write
    late = (*lines[:1], *(vector(0, 3) for _ in range(40)), lines[1])
    _, ops = run(*late)
    hit = ops[-2]
    assert hit.done == hit.issued + T.issue + 2 + T.l1 + T.write


def test_a_stream_waits_for_its_fence():
    append = "append", {"source": 0, "block": 0, "format": INT8, "elements": 0, "scale": 64}
    free = replace(T, hbm_turnaround=0, hbm_write=0)
    _, (stored, fence, product, _) = run(append, ("fence", {}), matrix(32), t=free)
    assert fence.done >= stored.done
    assert product.begun > fence.done + T.hbm
    _, (stored, product, _) = run(append, matrix(32), t=free)
    assert product.begun < stored.done + T.hbm


def test_operands_are_fetched_ahead_and_caught_up_in_pairs():
    slow = vector(3, 0, 512, output=Output.MXINT8, maximal=True)
    cycles = {
        (prefetch, pair): run(slow, matrix(32, 4), options=Options(prefetch=prefetch, pair=pair))[
            0
        ].cycles
        for prefetch in (True, False)
        for pair in (True, False)
    }
    # 128 element beats that are there take 64 cycles in pairs.
    assert cycles[True, False] - cycles[True, True] == 64
    assert cycles[False, True] > cycles[True, False]


def test_rows_beyond_half_of_the_lanes_do_not_pair():
    slow = vector(3, 0, 512, output=Output.MXINT8)
    result, _ = run(slow, matrix(32, 4, rows=2))
    assert result.paired == 0


def test_what_is_written_in_part_is_not_renamed():
    _, (first, second, _) = run(vector(1, 2, 512), vector(3, 2, 32, into=True))
    assert first.issued < second.issued
    assert not second.renames


def test_every_cycle_has_a_cause():
    result, _ = run(vector(3, 0, output=Output.MXINT8), matrix(128, 4), vector(1, 2))
    assert result.bus.total() == result.cycles
    assert result.lost.total() == result.cycles - result.bus["stream"]


@pytest.fixture(scope="module")
def decoded():
    tile_program = build(quantised("gptoss"), CONFIG)
    session = Session(tile_program)
    session.append([1, 2, 3])
    return record(session, [4], tile_program), session.next_token


def test_a_trace_is_what_the_interpreter_did(decoded):
    ops, token = decoded
    session = Session(build(quantised("gptoss"), CONFIG))
    session.append([1, 2, 3])
    before = session.tile.executed.total()
    assert session.append([4]) == token
    assert len(ops) == session.tile.executed.total() - before + 1
    assert {op.phase for op in ops} >= {"embedding", "norm", "attention", "router", "experts"}
    assert session.tile.observe is None


def test_replays_do_not_depend_on_one_another(decoded):
    ops, _ = decoded
    first = replay(ops, CONFIG)
    replay(ops, CONFIG.replace(issue_window=1), replace(T, fetch_words=1))
    assert replay(ops, CONFIG) == first


def test_less_is_not_faster(decoded):
    ops, _ = decoded
    planned = replay(ops, CONFIG).cycles
    for what, config, latencies, options in variants(CONFIG):
        cycles = replay(ops, config, latencies, options).cycles
        if what.startswith("no ") or what in ("issue_window 1", "memory latency 114"):
            assert cycles >= planned, what


def test_loads_of_every_kind_are_counted_in_lines():
    for kind, beats in ((LoadKind.WORDS, 16), (LoadKind.BYTES, 4)):
        load = {"to": 1, "rows": 1, "columns": 64, "address": 0, "kind": kind, "streaming": True}
        result, _ = run(("load", load))
        assert result.bus["loads"] == beats


def test_operands_by_row_are_not_chained():
    reduced = vector(0, 1, b_operand=Operand.ROW, b=5)
    (op, _) = program(reduced)
    assert op.sources == ()
    ops = program(vector(0, 1), vector(2, 3, b_operand=Operand.VECTOR_ONE, b=1))
    assert ops[1].sources == (ops[0],)
    assert ops[1].chained == ()
