"""Faults put into the interpreter on purpose: the tests beside this one notice every one.

Each is a change of one expression. What a test would see is put in place of the real thing.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from rtl.core.isa import Place, Reduction
from sim.interpreter import matrix, memory, network, registers, rows, scalar, tile, vector
from tests.sim.interpreter import (
    test_machine,
    test_matrix,
    test_memory,
    test_network,
    test_registers,
    test_rows,
    test_scalar,
    test_tile,
    test_vector,
)
from tests.sim.interpreter.programs import BASE, FP4, INT8, NANO, SIZE, op


@dataclass(frozen=True)
class Mutant:
    """In a module `good` is replaced by `bad`; `test`, called with `arguments`, must notice."""

    module: types.ModuleType
    good: str
    bad: str
    test: Callable[..., None]
    arguments: dict[str, Any] = field(default_factory=dict)


LOAD = op("load", to=0, rows=2, columns=4, address=SIZE - 16, pitch=4)
LOAD_FAULT = "16 bytes from address 0x7ff4 are not all in memory, which ends at 0x8000."

MUTANTS = {
    "partial sums are not gone on with": Mutant(
        vector, "starts, SLOT) if o.resume", "starts, SLOT) if False",
        test_vector.test_a_row_in_chunks_reduces_to_what_it_does_whole,
        {"reduction": Reduction.SUM, "chunks": (32, 64)},
    ),
    "masks are off by one": Mutant(
        rows, "mask >> index & 1", "mask >> index + 1 & 1",
        test_rows.test_only_rows_in_the_mask_take_part, {"mask": 0b101010, "left": [1, 3, 5]},
    ),
    "rows that do not take part are reduced": Mutant(
        vector, "rows = Rows.of(o)", "rows = Rows(o.rows, o.heads, False, 0)",
        test_vector.test_rows_that_do_not_take_part_are_as_if_absent,
    ),
    "maxima are those of rows, not of tokens": Mutant(
        vector, "place = o.maxima_offset + rows.token * o.maxima_pitch",
        "place = rows.places(o.maxima_offset, o.maxima_pitch)",
        test_vector.test_maxima_of_tokens_and_resumed,
    ),
    "NaN counts as a maximum": Mutant(
        vector, "blocks.maximum_scale.astype", "blocks.scales.max(-1).astype",
        test_vector.test_maxima_of_tokens_and_resumed,
    ),
    "the range forgets where columns begin": Mutant(
        vector, "position = o.first + ", "position = ",
        test_vector.test_elements_in_range, {"lo": 3, "hi": 70, "first": 64},
    ),
    "what is not in range is multiplied by zero": Mutant(
        vector, "np.where(inside, y, np.float32(0))", "fp32.mul(y, inside.astype(np.float32))",
        test_vector.test_what_is_not_in_range_is_zero_whatever_it_is,
    ),
    "the partner is the other way around": Mutant(
        vector, "column ^ 1", "column - 1",
        test_vector.test_rotation_is_rope, {"head": 32, "pairing": test_vector.Pairing.ADJACENT},
    ),
    "gaps count": Mutant(
        vector, "column % SLOT < o.segment", "column % SLOT <= o.segment",
        test_vector.test_gaps_and_masked_slots_do_not_count, {"mask": None, "segment": 5},
    ),
    "values are those compared": Mutant(
        vector, "np.take_along_axis(source,", "np.take_along_axis(compared,",
        test_vector.test_gaps_and_masked_slots_do_not_count, {"mask": 0b101, "segment": 32},
    ),
    "among equals the new result wins": Mutant(
        matrix, "~fp32.less(old, best)", "fp32.less(best, old)",
        test_matrix.test_argmax_goes_on_from_what_was_found,
        {"old": 5, "row": [5, 5], "wins": "old"},
    ),
    "ranges end one later": Mutant(
        matrix, "(column < hi)", "(column <= hi)",
        test_matrix.test_ranges, {"lo": 2, "hi": 5, "step": True},
    ),
    "every row has the anchor of the first": Mutant(
        matrix, "(o.last + rows.token * o.last_step)", "(o.last + 0 * rows.token)",
        test_matrix.test_every_row_has_the_anchor_of_its_own_position,
    ),
    "maxima are taken from the scales": Mutant(
        matrix, "window.lsb += above + beyond", "pass",
        test_matrix.test_maxima_beyond_the_scales_drop_bits,
    ),
    "heads are a pitch apart": Mutant(
        matrix, "rows.head * o.stride", "rows.head * o.pitch",
        test_matrix.test_heads_and_tokens_are_found_and_delivered_where_they_are_said_to_be,
    ),
    "a chain forgets its first activations": Mutant(
        matrix, "(*chain.activations, activations)", "(activations,)",
        test_matrix.test_only_the_last_of_a_chain_writes,
    ),
    "tile rows are outputs": Mutant(
        matrix, "first = o.tile_row * channels", "first = o.tile_row",
        test_matrix.test_values_in_a_chain,
    ),
    "operands are constant if they begin so": Mutant(
        matrix, "self.memory.run(where, beats.size).stop <=", "self.memory.run(where, 0).start <",
        test_matrix.test_an_operand_that_is_constant_in_part_is_not,
    ),
    "the low plane is behind the high one": Mutant(
        tile, "plane * self.config.beat_stride", "plane * 2 * BLOCK_BYTES",
        test_tile.test_appended_keys_lie_where_the_packer_puts_them,
        {"head": 32, "config": NANO, "fmt": INT8},
    ),
    "scale bytes are a pitch of their own apart": Mutant(
        tile, "(o.scales + o.scales_offset + distance)", "(o.scales + o.scales_offset)",
        test_tile.test_blocks_are_dequantised,
        {"columns": 33, "config": BASE.replace(vector_bytes=65536), "fmt": FP4},
    ),
    "a fault does half of an instruction": Mutant(
        tile, "self.journal.undo()", "self.journal.forget()",
        test_tile.test_faults, {"instructions": [LOAD], "cause": LOAD_FAULT},
    ),
    "values from registers are not checked": Mutant(
        tile, "if value not in field.range and", "if False and",
        test_scalar.test_a_value_from_a_register_must_fit_its_field,
    ),
    "a fence does nothing": Mutant(
        memory, "&= ~np.uint8(_UNFENCED)", "|= np.uint8(_UNFENCED)",
        test_tile.test_appends_are_seen_behind_a_fence,
    ),
    "lines are beats": Mutant(
        memory, "self.line = 2 * self.beat", "self.line = self.beat",
        test_memory.test_two_ways_to_one_line,
        {
            "first": test_memory.read, "second": test_memory.append, "fenced": False,
            "complaint": "writes past L1 what L1 may hold", "other_byte": 31,
        },
    ),
    "holes are bytes": Mutant(
        memory, "if byte >= self.beat:", "if False:",
        test_memory.test_holes_have_no_bytes, {"address": 96},
    ),
    "undefined words are read": Mutant(
        registers, "kinds != kind", "kinds > kind",
        test_registers.test_undefined_words_are_not_read,
    ),
    "codes of MXFP4 are in the upper half": Mutant(
        registers, "[..., : BLOCK // 2] = pack_nibbles", "[..., BLOCK // 2 :] = pack_nibbles",
        test_registers.test_where_the_codes_of_a_block_are,
    ),
    "comparisons are unsigned": Mutant(
        scalar, '"blt": lambda a, b: signed(a) < signed(b)', '"blt": lambda a, b: a < b',
        test_scalar.test_branches, {"name": "blt"},
    ),
    "shifts are not modulo 32": Mutant(
        scalar, "(a & WORD) >> (b & 31)", "(a & WORD) >> (b & 63)",
        test_scalar.test_arithmetic_on_registers, {"name": "shr"},
    ),
    "the second half of a share goes up too": Mutant(
        network, "owner + step * distance", "owner + distance",
        test_network.test_a_sum_goes_around_the_ring, {"count": 67, "tiles": 4},
    ),
    "the rest of a division goes to the last": Mutant(
        network, "min(tile, rest)", "0",
        test_network.test_shares_follow_each_other_and_differ_by_one, {"count": 7, "tiles": 4},
    ),
    "messages are found from the last one on": Mutant(
        network, "in self.inboxes[tile]:", "in reversed(self.inboxes[tile]):",
        test_machine.test_messages_between_two_tiles_arrive_in_order,
    ),
    "an all-gather reads the whole": Mutant(
        tile, "if o.kind is Collective.ALL_GATHER:", "if False:",
        test_machine.test_all_gather_of_words, {"count": 8, "tiles": 2},
    ),
    "results come to where sources are": Mutant(
        tile, "self._put(o, o.result_slot, payload", "self._put(o, o.offset, payload",
        test_machine.test_broadcast, {"place": Place.WORDS, "tiles": 2},
    ),
    "a send never waits": Mutant(
        network, "self.under_way[source] < MESSAGES", "True",
        test_machine.test_a_send_waits_when_too_many_messages_were_not_taken,
    ),
    "room is never given back": Mutant(
        network, "self.under_way[message.source] -= 1", "pass",
        test_machine.test_a_send_waits_when_too_many_messages_were_not_taken,
    ),
    "one message less is under way": Mutant(
        network, "self.under_way[source] < MESSAGES", "self.under_way[source] < MESSAGES - 1",
        test_machine.test_tiles_that_send_too_much_to_each_other_wait_for_ever,
    ),
}  # fmt: skip


def put_in_place(monkeypatch: pytest.MonkeyPatch, mutant: Mutant) -> None:
    """Let everybody use the changed functions of a module."""
    module = mutant.module
    source = inspect.getsource(module)
    assert source.count(mutant.good) == 1, f"{mutant.good} is there {source.count(mutant.good)}×"
    changed = types.ModuleType(module.__name__)
    monkeypatch.setitem(sys.modules, module.__name__, changed)  # dataclasses look there
    exec(compile(source.replace(mutant.good, mutant.bad), module.__file__, "exec"), vars(changed))
    monkeypatch.undo()
    users = [user for name, user in sys.modules.items() if name.startswith("sim.interpreter")]
    for name, new in vars(changed).items():
        old = vars(module).get(name)
        if getattr(new, "__module__", None) == module.__name__ and inspect.isclass(new):
            for member, function in vars(new).items():
                if inspect.isfunction(function) or isinstance(function, classmethod):
                    monkeypatch.setattr(old, member, function)
        elif inspect.isfunction(new) or name.isupper():
            for user in [*users, test_network]:
                if vars(user).get(name) is old:
                    monkeypatch.setattr(user, name, new)


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_a_fault_is_noticed(monkeypatch, mutant):
    mutant.test(**mutant.arguments)
    put_in_place(monkeypatch, mutant)
    with pytest.raises((AssertionError, ValueError, IndexError, pytest.fail.Exception)):
        mutant.test(**mutant.arguments)


def test_without_a_fault_nothing_is_noticed(monkeypatch):
    """Putting a module in place of itself changes nothing."""
    for mutant in MUTANTS.values():
        same = Mutant(mutant.module, mutant.good, mutant.good, mutant.test)
        put_in_place(monkeypatch, same)
        mutant.test(**mutant.arguments)
        monkeypatch.undo()
