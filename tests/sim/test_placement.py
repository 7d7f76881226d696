"""The place of a model in memory, against what the packer makes."""

from __future__ import annotations

from gen.layout import pack_weights
from gen.models import huggingface
from gen.models.formats import ModelFormats
from gen.models.quantised import quantise_model
from rtl.config import PRESETS, TileConfig
from sim.placement import placement
from tests.gen.models.samples import CONFIGS, state


def rows(config: TileConfig, **formats):
    model = huggingface.from_state_dict(CONFIGS["mixtral"], state(CONFIGS["mixtral"]))
    model = quantise_model(model, ModelFormats.from_dict(formats))
    return model, {row["part"]: row for row in placement(model, config)}


def test_matrices_take_what_the_packer_makes():
    config = PRESETS["base"]
    model, found = rows(config)
    network = model.layers[1].feed_forward
    packed = {
        "head": [model.head],
        "layer 1 router": [network.router.linear],
        "layer 1 experts": [m for e in network.experts for m in (e.gate, e.up, e.down)],
    }
    for part, linears in packed.items():
        beats = [
            pack_weights(
                linear.weights,
                pseudo_channels=config.pseudo_channels,
                acc_depth=config.acc_depth,
            )
            for linear in linears
        ]
        assert found[part]["beats"] == sum(map(len, beats))
        assert found[part]["bytes"] == sum(each.size for each in beats)
        assert found[part]["matrices"] == len(linears)


def test_the_cache_holds_the_context():
    _, found = rows(TileConfig(), keys="mxfp4")
    # A context of 40: keys of two groups of 32 positions, values of two, and their scales.
    # One block per key: no maxima; per group two beats of scales and 32 of elements.
    keys, values, scales = 2 * (2 + 32), 2 * 64, 4
    assert found["layer 0 cache"]["beats"] == 2 * (keys + values + scales)
    assert found["layer 0 cache"]["format"] == "mxfp4+mxint8"


def test_rows_of_the_embedding_begin_on_beats():
    assert rows(TileConfig())[1]["embedding"]["beats"] == 300 * 5  # 66 bytes
    found = rows(TileConfig(), embedding="fp32")[1]["embedding"]
    assert (found["beats"], found["format"]) == (300 * 16, "fp32")
