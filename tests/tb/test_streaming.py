"""Host port, HBM slice and matrix engine under Verilator, with devices and timing checkers."""

import functools

import pytest

from rtl.config import PRESETS, TileConfig
from sim import verilator
from sim.hbm.harness import Harness, attach
from tests.tb import simulation
from tests.tb.simulation import SEED, WAVES, emitted

ROWS = 256

CONFIGURATIONS = {
    "small": PRESETS["small"],
    "odd": simulation.CONFIGURATIONS.get("odd"),
}
NIGHTLY = {
    "plain": TileConfig(
        pseudo_channels=2,
        acc_depth=1,
        formats="mxfp4",
        stream_bytes=0,
        transposer=False,
        ecc=False,
        timing="hbm4-8000",
    ),
}
if simulation.CHOSEN:
    CONFIGURATIONS, NIGHTLY = simulation.CONFIGURATIONS, {}


@functools.cache
def harness(config: TileConfig) -> Harness:
    """Return the design with its memory."""
    return attach(emitted("streaming", config), rows=ROWS)


def run(config: TileConfig, work_dir, *, seed=SEED, testcases=None, env=None) -> verilator.Results:
    """Run the cocotb tests."""
    bench = harness(config)
    build = verilator.build(bench.sources, bench.top, bench.ports, waves=WAVES)
    print(f"seed {seed}; again with JALAPENO_SEED={seed}")
    return build.run(
        "tb.test_streaming",
        seed=seed,
        work_dir=work_dir,
        testcases=testcases,
        env={
            "JALAPENO_CONFIG": config.to_json(),
            "JALAPENO_HBM_ROWS": str(ROWS),
            **(env or {}),
        },
        waves=WAVES,
        timeout=1200,
    )


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_streaming(name, tmp_path):
    run(CONFIGURATIONS[name], tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 5))
@pytest.mark.parametrize("name", CONFIGURATIONS | NIGHTLY)
def test_streaming_with_other_seeds(name, seed, tmp_path):
    run((CONFIGURATIONS | NIGHTLY)[name], tmp_path, seed=seed).check()


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("a_wrong_beat_in_memory_is_noticed", "golden"),
        ("a_broken_timing_rule_is_noticed", "RCDRD"),
    ],
)
def test_the_checkers_fire(case, complaint, tmp_path):
    config = next(iter(CONFIGURATIONS.values()))
    results = run(config, tmp_path, testcases=[case], env={"JALAPENO_FIRE": "1"})
    assert list(results.failed) == [f"tb.test_streaming.{case}"]
    assert complaint in results.failed[f"tb.test_streaming.{case}"] + results.log.read_text()
