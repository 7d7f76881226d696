"""Figures of the slice with the matrix engine attached: what is run, and what becomes of it."""

import numpy as np

from gen.layout import Beats
from rtl.config import PRESETS
from sim.bench import hbm_stream
from sim.progress import NoProgress
from sim.streaming import StreamedMeasurement


class Stub:
    """Stands for a simulation: all beats but a tenth of the cycles."""

    def __init__(self, config, runs) -> None:
        self.config, self.runs = config, runs

    def run(self, products, timing, piece):
        (product,) = products
        self.runs.append((self.config.ecc, timing, piece))
        beats = product.beats(self.config).total
        active = beats * 10 // 9
        operands = {
            "operands": -(-beats // piece) if piece else 1,
            "beats": beats,
            "active": active,
            "waits_for_memory": active - beats,
            "waits_for_engine": 0,
        }
        values = np.zeros((1, product.weights.shape[0]), np.float32)
        fields = {"compared": values.size, "cycles": active + 9, "prefetched": 0, "counters": {}}
        return [
            StreamedMeasurement(
                values,
                beats=Beats(0, 0, beats),
                seconds=1.0,
                operands=operands,
                memory={"refreshes": 96},
                commands=beats,
                **fields,
            )
        ]


def test_a_figure_for_each_pattern_timing_set_and_ecc(monkeypatch, tmp_path):
    runs: list[tuple[bool, str, int]] = []
    monkeypatch.setattr(hbm_stream, "generate", lambda block, config, out_dir: config)
    monkeypatch.setattr(hbm_stream, "simulate", lambda config: Stub(config, runs))
    figures = hbm_stream.run(PRESETS["small"], NoProgress(), tmp_path)
    names = [f"{n}.{t}" for t in ("hbm3-6400", "hbm4-8000") for n in hbm_stream.PIECES]
    assert [f.name for f in figures] == names + [f"{name}.ecc_off" for name in names]
    assert len(set(runs)) == len(figures)
    for figure in figures:
        assert abs(figure.value - 0.9) < 1e-3
        assert figure.bound == 1
        assert "2048 × 512" in figure.workload
    assert "operands: 546; 34,944 beats in 38,826 cycles" in figures[1].workload
