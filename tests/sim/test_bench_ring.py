"""The bench of the ring: its bounds, its figures, and that what is slow or wrong is told."""

import json
from types import SimpleNamespace

import pytest

from rtl.config import PRESETS
from sim import figures
from sim.bench import find, ring
from sim.mac import HardwareError
from sim.progress import NoProgress

NANO, SMALL = PRESETS["nano"], PRESETS["small"]


def ideal(config, tiles, slower=1):
    """What a ring would report that takes as long as it must, or so many times as long."""
    sizes = [tiles * ring.WORD_BYTES, *ring.TARGETS]
    broadcast = ring.SIZE // 16 + tiles // 2
    return {
        "allgather": {str(size): slower * ring.bound(tiles, size, config) for size in sizes},
        "broadcast": slower * broadcast,
        **{
            name: slower * passes * ring.bound(tiles, ring.SIZE, config)
            for name, passes in ring.PASSES.items()
            if name != "broadcast"
        },
        "barrier": {"0": slower * (tiles + ring.BARRIER_TARGET)},
    }


@pytest.fixture
def slower(monkeypatch):
    """Put rings in the place of the real ones that are so many times slower than ideal."""

    def choose(factor):
        monkeypatch.setattr(
            ring,
            "measure",
            lambda config, progress: {n: ideal(config, n, factor) for n in ring.TILES},
        )
        monkeypatch.setattr(
            ring, "node", lambda config, progress: figures.Figure("ring.node_cells", 1, "", "")
        )
        return figures.report("ring", SMALL, find("ring").run(SMALL, NoProgress()))

    return choose


@pytest.mark.parametrize(
    ("tiles", "size", "config", "cycles"),
    [
        (1, 4096, SMALL, 0),
        (2, 4096, SMALL, 128 + 1),
        (3, 4096, SMALL, 171 + 1),
        (16, 65536, SMALL, 3840 + 8),
        (2, 4096, SMALL.replace(ring_bytes=32), 32 + 1),
        (2, 4096, SMALL.replace(ring_bytes=128), 32 + 1),  # a flit is never more than a block
    ],
)
def test_bound(tiles, size, config, cycles):
    assert ring.bound(tiles, size, config) == cycles


def test_an_ideal_ring_meets_its_bounds(slower):
    report = slower(1)
    assert report.met
    found = {figure.name: figure for figure in report.figures}
    for name in (
        "ring.allgather.4KiB",
        "ring.allgather.64KiB",
        *map("ring.{}".format, ring.PASSES),
    ):
        assert found[name].value == 1
    assert found["ring.barrier"].value == found["ring.barrier"].target == 8
    assert (
        found["ring.allgather.word.16_tiles"].value == found["ring.allgather.word.16_tiles"].bound
    )


def test_a_missed_target_is_reported(slower):
    report = slower(2)
    assert not report.met
    said = json.loads(json.dumps(report.to_dict()))
    missed = {figure["name"]: figure["value"] for figure in said["figures"] if not figure["met"]}
    assert missed == {"ring.allgather.4KiB": 0.5, "ring.allgather.64KiB": 0.5, "ring.barrier": 32}


def test_a_wrong_bit_is_no_figure(monkeypatch, tmp_path):
    results = SimpleNamespace(
        failed={"tb.ring_bench.measure": "tile 0, v5 at 3: 0x1, golden has 0x2\nmore"},
        log=tmp_path / "log",
    )
    build = SimpleNamespace(run=lambda *a, **k: results)
    monkeypatch.setattr(ring.verilator, "build", lambda *a, **k: build)
    monkeypatch.setattr(ring, "emit", lambda *a: SimpleNamespace(ports=[], top="top", text=""))
    with pytest.raises(
        HardwareError, match=r"tb\.ring_bench\.measure: tile 0, v5 at 3: .* 0x2; log"
    ):
        ring.measure(NANO, NoProgress(), [2])


def test_only_what_begins_as_zero_is_left_out():
    kept = "  memory[0] = 32'h00000001;\n  always_ff @(posedge clk)\n    memory[1] <= 32'h0;\n"
    assert ring._shortened(f"    memory[12] = 32'h00000000;\n{kept}") == kept


@pytest.mark.nightly
def test_a_small_ring(monkeypatch):
    """Cycles of the real one: more than the bound, by no more than it takes to begin and end."""
    monkeypatch.setattr(ring, "SIZE", 1024)
    measured = ring.measure(NANO, NoProgress(), [2])[2]
    assert measured["compared"] > 0
    for size, cycles in measured["allgather"].items():
        assert 0 < cycles - ring.bound(2, int(size), NANO) < 20, size
    assert max(measured["barrier"].values()) <= 2 + ring.BARRIER_TARGET
