"""The network on chip under Verilator: every packet once, in order, whatever the traffic."""

import pytest

from gen.verilog import emit
from rtl.config import TileConfig
from rtl.noc import MeshNetwork, Noc
from sim import verilator
from sim.noc import keep_routers
from tests.tb.simulation import CONFIGURATIONS, SEED, WAVES


def shape(mesh, depth=4, flit_bytes=4):
    return TileConfig(mesh=mesh, noc_buffer=depth, flit_bytes=flit_bytes)


MESHES = {
    "1x4": shape("1x4", depth=2),
    "2x2": shape("2x2", flit_bytes=8),
    "3x5": shape("3x5"),
}
"""Single networks; each is a build of its own."""

MORE = {
    "1x1": shape("1x1"),
    "4x1": shape("4x1", depth=3),
    "4x4": shape("4x4", flit_bytes=8),
    "of single slots": shape("2x2", depth=1),
    "of eight slots": shape("2x3", depth=8, flit_bytes=32),
}

CHIPS = {"1x1": shape("1x1", depth=1)}
"""Both networks."""

MORE_CHIPS = {"2x2": shape("2x2", depth=2)}

if "chosen" in CONFIGURATIONS:
    MESHES, MORE, MORE_CHIPS, CHIPS = {}, {}, {}, CONFIGURATIONS


def run(component, config, work_dir, seed=SEED):
    print(f"seed {seed}; again with JALAPENO_SEED={seed}")
    design = emit(component(config), "noc", config, fields=WAVES)
    sources = {"noc_modules.vlt": keep_routers(design), f"{design.top}.sv": design.text}
    ports = [port.name for port in design.ports]
    verilator.build(sources, design.top, ports, waves=WAVES).run(
        "tb.test_noc",
        seed=seed,
        work_dir=work_dir,
        env={"JALAPENO_CONFIG": config.to_json()},
        waves=WAVES,
        timeout=1200,
    ).check()
    assert (work_dir / "coverage.yaml").exists()


@pytest.mark.parametrize("name", MESHES)
def test_mesh(name, tmp_path):
    run(MeshNetwork, MESHES[name], tmp_path)


@pytest.mark.parametrize("name", CHIPS)
def test_both_networks(name, tmp_path):
    run(Noc, CHIPS[name], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", MORE)
def test_mesh_of_other_shapes(name, tmp_path):
    run(MeshNetwork, MORE[name], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", MORE_CHIPS)
def test_both_networks_of_other_shapes(name, tmp_path):
    run(Noc, MORE_CHIPS[name], tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 6))
@pytest.mark.parametrize("name", MESHES)
def test_mesh_with_other_seeds(name, seed, tmp_path):
    run(MeshNetwork, MESHES[name], tmp_path, seed)
