"""The core under Verilator, with engines that are the interpreter's, against the interpreter."""

import numpy as np
import pytest

from gen.kernels.program import build as build_program
from gen.kernels.stored import COUNT, POSITION, TOKENS
from sim.session import Session
from tests.sim.cases import Shape, tokens_for
from tests.tb.simulation import CONFIGURATIONS, SEED, build, run

CORES = {name: CONFIGURATIONS[name] for name in ("nano", "chosen") if name in CONFIGURATIONS}
CORES |= {
    f"window_{size}": next(iter(CORES.values())).replace(issue_window=size) for size in (1, 8)
}
"""The window of the presets, and others."""


@pytest.mark.parametrize("name", CORES)
def test_core(name, tmp_path):
    run("core", CORES[name], tmp_path).check()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
@pytest.mark.parametrize("name", CORES)
def test_core_with_other_seeds(name, seed, tmp_path):
    run("core", CORES[name], tmp_path, seed=seed).check()


@pytest.mark.parametrize(
    "shape",
    [
        Shape(vocabulary=40, hidden=40),
        Shape(vocabulary=40, hidden=40, experts=3, top_k=2, bias=True, sinks=True, clamped=True),
    ],
    ids=["dense", "experts"],
)
def test_programs_of_models(shape, tmp_path):
    """Prefill and a decoded token: memory is what the interpreter leaves, every byte of it."""
    config = next(iter(CORES.values()))
    model = shape.model(3)
    session = Session(build_program(model, config, capacity=32, logits=True))
    mailbox = session.stored.map["mailbox"].address
    images = []
    tokens = tokens_for(model, 4)
    for position, request in ((0, tokens[:3]), (3, tokens[3:])):
        for place, value in ((POSITION, position), (COUNT, len(request)), (TOKENS, request)):
            session.memory.poke(mailbox + 4 * place, np.asarray(value, np.uint32))
        before = session.memory.bytes.copy()
        session.append(request)
        images.append((before, session.memory.bytes.copy()))
    case = tmp_path / "case.npz"
    np.savez(
        case,
        words=np.array(session.words, np.uint32),
        before=np.stack([image[0] for image in images]),
        after=np.stack([image[1] for image in images]),
    )
    build("core", config).run(
        "tb.test_core",
        seed=SEED,
        work_dir=tmp_path,
        testcases=["program_of_a_model"],
        env={"JALAPENO_CONFIG": config.to_json(), "JALAPENO_CASE": str(case)},
        timeout=1200,
    ).check()


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("a_wrong_byte_is_noticed", "memory at"),
        ("a_fault_of_an_engine_is_noticed", "undefined"),
    ],
)
def test_the_checkers_fire(case, complaint, tmp_path):
    results = run("core", next(iter(CORES.values())), tmp_path, testcases=[case])
    assert list(results.failed) == [f"tb.test_core.{case}"]
    assert complaint in results.failed[f"tb.test_core.{case}"]
