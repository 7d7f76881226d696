"""Where cycles go, from made-up probes; and what the parts of a tile did, from made-up counters."""

from types import SimpleNamespace

import numpy as np
import pytest
from amaranth.hdl import Const

from rtl.config import PRESETS
from rtl.core.window import Engine
from rtl.tile import ProbeLayout
from sim.activity import PATHS, WIDTH, Activity, activities, bytes_by_path, moved
from sim.profile import profile

CONFIG = PRESETS["nano"]

LINES = [
    SimpleNamespace(address=0, phase="norm", instruction=SimpleNamespace(name="vector")),
    SimpleNamespace(address=8, phase="product", instruction=SimpleNamespace(name="matrix")),
]
PROGRAM = SimpleNamespace(lines=LINES)


def record(*cycles):
    """Return what a probe showed, from the fields of every cycle."""
    layout = ProbeLayout(CONFIG)
    size = -(-layout.size // 8)
    shown = [int(Const(fields, layout).as_value().value) for fields in cycles]
    return np.array([list(value.to_bytes(size, "little")) for value in shown], np.uint8)


def enters(tail, pc):
    return {"window": {"enter": 1, "tail": tail, "pc": pc}}


def ends(engine, entry):
    ended = [entry if e == engine else 0 for e in Engine]
    return {"window": {"done": 1 << engine, "ended": ended}}


def test_every_cycle_has_one_phase_and_one_cause():
    phases = profile(
        CONFIG,
        record(
            enters(3, 0),
            {"vector": 1},
            {"vector": 1, "memory": 1, "resolving": 1},
            {"memory": 1} | enters(4, 8),
            {"vector": 1} | ends(Engine.VECTOR, 3),
            {"asked": 1},
            {"asked": 1, "beat": 1, "step": 1},
            {"beat": 1},
            {"asked": 1, "waits": 1, "step": 1},
            {"asked": 1, "waits": 1, "vector": 1},
            ends(Engine.MATRIX, 4),
        ),
        PROGRAM,
    )
    found = {phase.name: phase for phase in phases}
    # The product is next from the cycle on in which it enters, and what is behind it belongs to it.
    assert found["norm"].lost == {"front end": 1, "vector": 2}
    assert found["product"].lost == {
        "loads": 1, "vector": 2, "memory": 1, "array": 1, "front end": 1,
    }  # fmt: skip
    assert (found["norm"].beats, found["product"].beats) == (0, 2)
    assert sum(phase.cycles for phase in phases) == 11


def test_strips():
    assert Activity("matrix", "block rows", 0.5, 0.25).strip == "█" * 20 + "░" * 10 + "·" * 10
    assert Activity("core", "instructions", 1.0, 0.0).strip == "█" * WIDTH
    assert len(Activity("odd", "x", 0.99, 0.02).strip) == WIDTH


def test_activities_are_fractions_of_the_cycles():
    names = {
        "core": (
            "cycles", "instructions", "matrix_dark", "vector_dark", "memory_dark",
            "collective_dark", "message_dark", "host_reads", "host_writes",
        ),
        "hbm": ("reads", "writes"),
        "mac": ("steps",),
        "vec": ("transfers",),
        "memory": ("beats", "stores", "appends"),
        "ring": ("sent_up", "sent_down"),
        "message": ("flits_sent",),
        "operands": ("beats",),
        "l1": ("misses", "write_backs"),
    }  # fmt: skip
    before = {window: dict.fromkeys(counters, 100) for window, counters in names.items()}
    after = {
        "core": {
            "cycles": 1100, "instructions": 110, "matrix_dark": 300, "vector_dark": 600,
            "memory_dark": 1100, "collective_dark": 1090, "message_dark": 1100,
            "host_reads": 103, "host_writes": 101,
        },
        "hbm": {"reads": 400, "writes": 150},
        "mac": {"steps": 700},
        "vec": {"transfers": 200},
        "memory": {"beats": 101, "stores": 102, "appends": 103},
        "ring": {"sent_up": 105, "sent_down": 107},
        "message": {"flits_sent": 120},
        "operands": {"beats": 150},
        "l1": {"misses": 110, "write_backs": 101},
    }  # fmt: skip
    grown = moved(before, after)
    found = {a.part: a for a in activities(CONFIG, grown)}
    assert found["memory bus"].active == pytest.approx(0.7)
    assert (found["matrix"].active, found["matrix"].dark) == (0.6, 0.2)
    assert (found["vector"].active, found["vector"].dark) == (0.1, 0.5)
    assert (found["load/store"].active, found["load/store"].dark) == (0.006, 1.0)
    assert found["core"].active == 0.01
    assert (found["ring"].active, found["ring"].dark) == (0.007, 0.99)
    assert (found["messages"].active, found["messages"].dark) == (0.01, 1.0)
    beat, line = CONFIG.beat_bytes, 2 * CONFIG.beat_bytes
    assert bytes_by_path(CONFIG, grown) == {
        "streamed": 50 * beat, "appended": 3 * beat, "l1": 11 * line, "registers": 3 * beat,
        "ring": 12 * CONFIG.ring_bytes, "noc": 20 * CONFIG.flit_bytes, "host": 4 * beat,
    }  # fmt: skip
    assert PATHS.keys() == bytes_by_path(CONFIG, grown).keys()
