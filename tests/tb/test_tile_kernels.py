"""The shapes of the kernels' tests, on tiles under Verilator rather than on the interpreter."""

from collections.abc import Iterator

import pytest

from gen.memory_map import DoesNotFit
from gen.package import write
from rtl.config import PRESETS
from rtl.tile import Tile
from sim.tile import RunningTile, simulate
from tests.sim import test_kernels as kernels
from tests.sim.test_kernels import (  # noqa: F401  collected here once more
    test_contexts_and_windows,
    test_embeddings_of_every_format,
    test_every_family,
    test_grouped_routers,
    test_heads,
    test_layers_that_differ_in_a_number,
    test_layers_that_differ_in_heads,
    test_nan_in_a_weight,
    test_odd_heads,
    test_routers,
    test_tokens_of_a_mixture,
    test_windows_of_any_size,
)
from tests.tb.simulation import SEED
from tests.tb.test_tile import compare_model

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module", params=["small", "base"])
def tile(request, tmp_path_factory) -> Iterator[RunningTile]:
    """Return a tile whose simulation goes on from test to test."""
    config = PRESETS[request.param]
    package = write("tile", Tile(config), config, tmp_path_factory.mktemp(request.param))
    with simulate(package).start() as running:
        yield running


@pytest.fixture(autouse=True)
def on_the_tile(tile, monkeypatch):
    """Let the tests run their models on the tile, whatever tile they ask for."""

    def run_and_compare(model, config, sequence, requests=None):
        try:
            return compare_model(tile, model, sequence, requests or [len(sequence)], SEED)
        except DoesNotFit as reason:
            pytest.skip(str(reason))

    monkeypatch.setattr(kernels, "run_and_compare", run_and_compare)
