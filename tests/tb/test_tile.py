"""A tile under Verilator, with devices and timing checkers: programs and whole models."""

import functools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from gen.kernels.program import build as build_program
from gen.models.model import Model, Pairing, RouterKind
from gen.package import write
from rtl.config import TileConfig
from rtl.tile import Tile
from sim import verilator
from sim.golden.transformer import Cache, forward
from sim.hbm.harness import Harness, attach
from sim.session import Session
from sim.tile import ROWS, HardwareError, RunningTile, TileSession
from tb.tile_settings import any_settings
from tests.sim.cases import Shape, bits, tokens_for
from tests.tb import simulation
from tests.tb.simulation import SEED, WAVES, emitted

CONFIG = TileConfig(**next(iter(simulation.CONFIGURATIONS.values())).to_dict())


@functools.cache
def harness() -> Harness:
    """Return the design with its memory."""
    return attach(emitted("tile", CONFIG), rows=ROWS)


def build() -> verilator.Build:
    """Return its simulation."""
    bench = harness()
    return verilator.build(bench.sources, bench.top, bench.ports, waves=WAVES)


def run(work_dir, *, seed=SEED, testcases=None, env=None) -> verilator.Results:
    """Run the cocotb tests."""
    print(f"seed {seed}; again with JALAPENO_SEED={seed}")
    return build().run(
        "tb.test_tile",
        seed=seed,
        work_dir=work_dir,
        testcases=testcases,
        env={
            "JALAPENO_CONFIG": CONFIG.to_json(),
            "JALAPENO_HBM_ROWS": str(ROWS),
            **(env or {}),
        },
        waves=WAVES,
        timeout=1200,
    )


def test_tile(tmp_path):
    run(tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
def test_tile_with_other_seeds(seed, tmp_path):
    run(tmp_path, seed=seed).check()


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("a_wrong_byte_is_noticed", "memory at"),
        ("a_program_that_stops_is_noticed", "opcode"),
    ],
)
def test_the_checkers_fire(case, complaint, tmp_path):
    results = run(tmp_path, testcases=[case], env={"JALAPENO_FIRE": "1"})
    assert list(results.failed) == [f"tb.test_tile.{case}"]
    assert complaint in results.failed[f"tb.test_tile.{case}"]


# --- whole models --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tile(tmp_path_factory) -> Iterator[RunningTile]:
    """Return a tile whose simulation goes on from test to test."""
    package = write("tile", Tile(CONFIG), CONFIG, tmp_path_factory.mktemp("tile"))
    with RunningTile(package, build(), ROWS) as running:
        yield running


class RandomSession(TileSession):
    """A session on a tile with other limits in every request, and a host that is in the way."""

    def __init__(self, program, tile, rng):
        self.rng = rng
        super().__init__(program, tile)

    def execute(self):
        self.cycles.append(self.tile.run(self.rng.choice([None, self.rng.getrandbits(32)])))


def compare(tile: RunningTile, shape: Shape, requests: list[int], seed: int) -> None:
    """Run a random model of some shape, see `compare_model`."""
    model = shape.model(seed)
    compare_model(tile, model, tokens_for(model, sum(requests), seed), requests, seed)


def compare_model(
    tile: RunningTile, model: Model, tokens, requests: list[int], seed: int
) -> Session:
    """Run a model in requests of these sizes, each time with other limits.

    Logits must be golden's, and memory what the interpreter leaves, every byte of it. Returns the
    interpreter's session.
    """
    rng = random.Random(seed)
    program = build_program(model, tile.config, capacity=len(tokens), logits=True)
    expected, at = forward(model, tokens, Cache(model), tile.config.acc_bits), 0
    reference = Session(program)
    settings = any_settings(tile.config, rng)
    tile.reset(settings)
    tile.clear()
    session = RandomSession(program, tile, rng)
    for size in requests:
        request = tokens[at : at + size]
        found = session.append(request)
        np.testing.assert_array_equal(bits(found), bits(expected[at : at + size]))
        reference.append(request)
        memory = reference.memory.bytes
        wrong = np.flatnonzero(tile.dump(reference.memory.size) != memory)
        assert not wrong.size, f"memory at {wrong[0]:#x} with {settings}"
        at += size
    return reference


KERNELS = {
    "dense": (Shape(), [9, 1]),
    "heads of 8, adjacent pairs": (
        Shape(heads=(3, 1), head=8, pairing=Pairing.ADJACENT, bias=True),
        [7, 1],
    ),
    "heads of 40": (Shape(head=40, context=40), [5, 1, 1]),
    "heads of 64, one each": (Shape(heads=(2, 2), head=64), [6]),
    "window and sinks": (Shape(windows=(9, None), layers=2, sinks=True, context=64), [33, 1]),
    "all formats mxfp4": (Shape(formats="mxfp4", layers=2), [5, 1]),
    "all formats mxint8": (Shape(formats="mxint8", clamped=True), [5, 1]),
    "experts": (
        Shape(experts=5, top_k=2, bias=True, sinks=True, clamped=True, hidden=40),
        [5, 1],
    ),
    "grouped experts, a shared one": (
        Shape(experts=8, top_k=2, kind=RouterKind.SIGMOID, groups=(4, 2), shared=True, hidden=40),
        [4, 1],
    ),
    "wide": (Shape(width=200, hidden=168), [3, 1]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(tile, name):
    compare(tile, *KERNELS[name], SEED)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 6))
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_with_other_seeds(tile, name, seed):
    compare(tile, *KERNELS[name], seed)


SETTINGS = {
    "as it is": {},
    "in order": {"window": 1},
    "two in the window": {"window": 2},
    "no prefetch": {"prefetch": False},
    "no pairing": {"pairing": False},
    "a stream buffer of two rows": {"stream_rows": 2},
    "hbm4-8000": {"timing": "hbm4-8000"},
    "no ecc": {"ecc": False},
}


def test_nothing_shows_in_a_bit(tile):
    """One prefill, chunks, or decode; any window, prefetch, pairing, timing, protection."""
    shape = Shape(experts=4, top_k=2, windows=(16,), sinks=True, bias=True, hidden=40)
    model = shape.model(5)
    tokens = tokens_for(model, 20)
    program = build_program(model, CONFIG, capacity=20, logits=True)
    expected = forward(model, tokens, Cache(model), CONFIG.acc_bits)
    cycles = {}
    for name, settings in SETTINGS.items():
        tile.reset(settings)
        session = TileSession(program, tile)
        for requests in ([20], [7, 13], [1] * 20) if name == "as it is" else ([12, 1, 7],):
            session.length = 0
            found, at = [], 0
            for size in requests:
                found.append(session.append(tokens[at : at + size]))
                at += size
            np.testing.assert_array_equal(bits(np.concatenate(found)), bits(expected))
        cycles[name] = sum(session.cycles[-3:])
    print(cycles)
    # The limits do something.
    assert len(set(cycles.values())) == len(SETTINGS), cycles


def test_rejected_tokens_leave_no_trace(tile):
    model = Shape().model(6)
    tokens = tokens_for(model, 12)
    session = _session(tile, model)
    session.append(tokens[:8])
    for wrong in ([1, 2, 3], [4]):
        session.append(wrong)
        session.length = 8
    expected = forward(model, tokens, Cache(model), CONFIG.acc_bits)[8:]
    np.testing.assert_array_equal(bits(session.append(tokens[8:])), bits(expected))


def lost_weights_stop_the_model(tile):
    """Damage a weight beyond repair, and run the model."""
    model = Shape().model(7)
    session = _session(tile, model)
    weights = session.stored.map["head"].address
    tile.flip(weights, 3, 17)
    with pytest.raises(HardwareError, match=r"the program stopped at word \d+, memory"):
        session.append(tokens_for(model, 3))


def test_weights_that_are_lost_stop_the_model(tile):
    """Two wrong bits in a word of an operand: the cause can be read, and a reset mends it."""
    lost_weights_stop_the_model(tile)
    compare(tile, *KERNELS["dense"], SEED)


def _session(tile: RunningTile, model) -> TileSession:
    tile.reset()
    return TileSession(build_program(model, CONFIG, capacity=16, logits=True), tile)
