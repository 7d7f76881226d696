"""The device in the build of a design, and the beats it stores."""

import numpy as np
import pytest

from gen.verilog import emit
from rtl.config import TileConfig
from rtl.counters import Counter, CounterBank
from rtl.hbm.code import check_byte
from sim.hbm.beats import POISON_BEAT, UNWRITTEN, UNWRITTEN_BEAT, from_text, to_text, with_check
from sim.hbm.harness import attach
from sim.hbm.rules import RULES
from sim.hbm.wires import BusWires
from sim.interpreter.memory import UNWRITTEN as INTERPRETED
from sim.lint import slang


def test_a_second_front_end_reads_device_and_checker():
    harness = attach(emit(BusWires(3), "bus", TileConfig()), rows=64)
    assert harness.channels == 3
    slang(harness.sources)


def test_only_the_buses_are_hidden():
    harness = attach(emit(BusWires(2), "bus", TileConfig()), rows=64)
    assert {"clk", "rst", "drive__1__row__command", "drive__0__read__data"} <= set(harness.ports)
    assert not [port for port in harness.ports if port.startswith("hbm__")]


def test_a_design_without_a_bus_is_refused():
    design = emit(CounterBank([Counter("beats", "beats")]), "count", TileConfig())
    with pytest.raises(ValueError, match="jalapeno_count has no HBM bus"):
        attach(design, rows=64)


def test_the_checker_has_room_for_the_rules():
    assert len(RULES) <= 32


def test_unwritten_memory_is_what_the_interpreter_reads():
    assert UNWRITTEN == INTERPRETED
    word = int.from_bytes(bytes([UNWRITTEN] * 8), "little")
    assert (check_byte(word) * 0x0101) << 128 | word << 64 | word == UNWRITTEN_BEAT


def test_poison_cannot_be_corrected():
    for word in range(2):
        data, check = POISON_BEAT >> 64 * word & (1 << 64) - 1, POISON_BEAT >> 128 + 8 * word & 0xFF
        assert (check_byte(data) ^ check).bit_count() == 2


def test_text_and_back():
    beats = with_check(np.random.default_rng(1).integers(0, 256, (100, 16), np.uint8))
    places = np.r_[3:50, 60:61, 70:122]
    text = to_text(places, beats)
    assert [line for line in text.split() if line.startswith(b"@")] == [b"@3", b"@3c", b"@46"]
    assert (from_text(text) == beats).all()
    first = int.from_bytes(beats[0].tobytes(), "little")
    assert int(text.split()[1], 16) == first
