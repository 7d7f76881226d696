"""Sizes of the vector unit's arithmetic: their figures."""

from rtl.config import PRESETS
from sim.bench import vec_area
from sim.progress import NoProgress


def test_every_part_has_cells_and_a_depth(monkeypatch):
    small = [part for part in vec_area.PARTS if part.name in ("ldexp", "quantiser")]
    monkeypatch.setattr(vec_area, "PARTS", small)
    figures = {f.name: f for f in vec_area.run(PRESETS["nano"], NoProgress())}
    assert list(figures) == [
        "vec.ldexp_cells",
        "vec.ldexp_depth",
        "vec.quantiser_cells",
        "vec.quantiser_depth",
    ]
    assert 100 < figures["vec.ldexp_cells"].value < figures["vec.quantiser_cells"].value < 400
    assert all(10 < figures[f"vec.{name}_depth"].value < 60 for name in ("ldexp", "quantiser"))
