"""The configuration object: presets, refusals, derived values and the hash."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys

import pytest
from pydantic import ValidationError

from rtl.config import PRESETS, TILES_MAX, ConfigError, Mesh, TileConfig, preset
from rtl.formats import Format

KIB = 1024

# The table of the contract, row by row: nano, small, base, slice.
TABLE = {
    "pseudo_channels": (1, 1, 2, 6),
    "lanes": (2, 4, 8, 218),
    "acc_depth": (32, 32, 32, 64),
    "acc_bits": (48, 48, 48, 48),
    "formats": ("mxfp4+mxint8",) * 4,
    "vec_lanes": (4, 4, 8, 16),
    "act_blocks": (16, 96, 96, 128),
    "vector_bytes": (16 * KIB, 32 * KIB, 64 * KIB, 512 * KIB),
    "l1_bytes": (4 * KIB, 16 * KIB, 32 * KIB, 512 * KIB),
    "l1_ways": (2, 4, 4, 8),
    "stream_bytes": (1 * KIB, 4 * KIB, 8 * KIB, 64 * KIB),
    "issue_window": (4, 8, 8, 16),
    "ring_bytes": (8, 8, 16, 32),
    "flit_bytes": (8, 16, 32, 64),
    "noc_buffer": (2, 4, 4, 8),
    "mesh": (Mesh(2, 1), Mesh(2, 2), Mesh(4, 2), Mesh(1, 1)),
    "timing": ("hbm3-6400", "hbm3-6400", "hbm3-6400", "hbm4-8000"),
}


@pytest.mark.parametrize("field", TABLE)
def test_presets_hold_the_values_of_the_contract(field: str) -> None:
    assert tuple(getattr(config, field) for config in PRESETS.values()) == TABLE[field]


def test_default_is_small() -> None:
    assert TileConfig() == PRESETS["small"]
    assert list(PRESETS) == ["nano", "small", "base", "slice"]


@pytest.mark.parametrize(
    "values",
    [
        {"mesh": "1x1"},
        {"mesh": "1x16"},
        {"mesh": [16, 1]},
        {"issue_window": 1},
        {"acc_depth": 1},
        {"stream_bytes": 0},
        {"noc_buffer": 1},
        {"vec_lanes": 1},
        {"vec_lanes": 32},
        {"l1_bytes": 128, "l1_ways": 4},
        {"acc_bits": 32},
        {"acc_bits": 52},
        {"pseudo_channels": 32},
        {"transposer": False, "ecc": False, "formats": "mxfp4"},
    ],
    ids=json.dumps,
)
def test_degenerate_values_are_legal(values: dict) -> None:
    TileConfig.from_dict(values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lanes": 3}, "lanes is 3; it must be an even number from 2 to 512."),
        ({"lanes": "4"}, 'lanes is "4"; it must be an even number from 2 to 512.'),
        ({"lanes": True}, "lanes is true; it must be an even number from 2 to 512."),
        ({"lanes": 4.0}, "lanes is 4.0; it must be an even number from 2 to 512."),
        ({"acc_bits": 31}, "acc_bits is 31; it must be a whole number from 32 to 52."),
        ({"acc_bits": 53}, "acc_bits is 53; it must be a whole number from 32 to 52."),
        ({"pseudo_channels": 0}, "pseudo_channels is 0; it must be a whole number from 1 to 32."),
        ({"vec_lanes": 3}, "vec_lanes is 3; it must be a power of two from 1 to 32."),
        ({"vec_lanes": -4}, "vec_lanes is -4; it must be a power of two from 1 to 32."),
        ({"vec_lanes": 64}, "vec_lanes is 64; it must be a power of two from 1 to 32."),
        ({"formats": "int8"}, 'formats is "int8"; it must be "mxfp4" or "mxfp4+mxint8".'),
        ({"ecc": 1}, "ecc is 1; it must be true or false."),
        (
            {"mesh": "2x"},
            'mesh is "2x"; it must be two whole numbers from 1 to 16, such as "2x2" or [2, 2].',
        ),
        (
            {"mesh": [2, 17]},
            'mesh is [2, 17]; it must be two whole numbers from 1 to 16, such as "2x2" or [2, 2].',
        ),
        (
            {"stream_bytes": 40},
            "stream_bytes is 40; with pseudo_channels 1 it must be 0 or a multiple of 32, "
            "the address space of two beats.",
        ),
        (
            {"l1_bytes": 64, "l1_ways": 4},
            "l1_bytes is 64; with l1_ways 4 and lines of 32 bytes it must be at least 128.",
        ),
        ({"lane": 4}, "There is no field lane; did you mean lanes or vec_lanes?"),
        ({"Mesh": "2x2"}, "There is no field Mesh; did you mean mesh?"),
        ({"self": 4}, "There is no field self; choose from pseudo_channels, lanes, "),
    ],
    ids=str,
)
def test_a_bad_value_is_refused_in_one_sentence(values: dict, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        TileConfig.from_dict(values)
    assert str(refusal.value).startswith(message)
    assert refusal.value.field == next(iter(values))


def test_every_field_refuses_a_value_of_the_wrong_type() -> None:
    for field in TileConfig.fields():
        with pytest.raises(ConfigError, match=f"^{field.name} is null; it must be "):
            TileConfig.from_dict({field.name: None})


def test_unknown_preset_is_refused() -> None:
    with pytest.raises(ConfigError, match='preset is "tiny"; it must be one of nano, small'):
        preset("tiny")


def test_a_configuration_cannot_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TileConfig().lanes = 8  # type: ignore[misc]


def test_replace_validates() -> None:
    config = PRESETS["base"].replace(lanes=16, mesh="1x2")
    assert (config.lanes, config.mesh, config.pseudo_channels) == (16, Mesh(1, 2), 2)
    with pytest.raises(ConfigError, match="lanes is 5"):
        config.replace(lanes=5)


@pytest.mark.parametrize("name", PRESETS)
def test_json_and_pickle_round_trip(name: str) -> None:
    config = PRESETS[name]
    for copy in (
        TileConfig.from_dict(json.loads(config.to_json())),
        pickle.loads(pickle.dumps(config)),
    ):
        assert copy == config
        assert copy.hash == config.hash


def test_hash_depends_on_every_field_and_on_nothing_else() -> None:
    changes = {
        "pseudo_channels": 2, "lanes": 8, "acc_depth": 16, "acc_bits": 40, "formats": "mxfp4",
        "vec_lanes": 8, "act_blocks": 64, "vector_bytes": 65536, "l1_bytes": 8192, "l1_ways": 2,
        "stream_bytes": 0, "issue_window": 1, "program_bytes": 4096, "ring_bytes": 16,
        "flit_bytes": 8, "noc_buffer": 2,
        "mesh": "1x1", "timing": "hbm4-8000", "ecc": False, "transposer": False,
    }  # fmt: skip
    assert set(changes) == {field.name for field in TileConfig.fields()}
    configs = [TileConfig(), *(TileConfig.from_dict({k: v}) for k, v in changes.items())]
    assert len({config.hash for config in configs}) == len(configs)
    assert TileConfig.from_dict(dict(reversed(TileConfig().to_dict().items()))).hash == (
        TileConfig().hash
    )


def test_hash_is_the_same_in_every_process() -> None:
    program = "from rtl.config import TileConfig; print(TileConfig().hash)"
    for seed in ("0", "1"):
        result = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.strip() == TileConfig().hash


def test_derived_values() -> None:
    config = PRESETS["slice"]
    assert config.element_formats == (Format.MXFP4, Format.MXINT8)
    assert (config.beat_bytes, config.beat_bits, config.beat_stride) == (96, 768, 128)
    assert (config.lane_pairs, config.group_outputs) == (109, 384)
    # 2 * L multiplications per byte from HBM, as in the contract.
    assert config.macs_per_cycle == 2 * config.lanes * config.beat_bytes
    assert (config.line_bytes, config.l1_sets, config.stream_beats) == (256, 256, 512)
    assert (config.vector_words, config.tiles) == (128 * KIB, 1)
    assert TileConfig(formats="mxfp4").element_formats == (Format.MXFP4,)


def test_memories_are_whole_numbers_of_beats_for_every_legal_combination() -> None:
    for channels, ways, log_bytes in itertools.product((1, 3, 6, 32), (1, 4, 16), range(6, 23)):
        try:
            config = TileConfig(
                pseudo_channels=channels, l1_ways=ways, l1_bytes=1 << log_bytes, stream_bytes=0
            )
        except ConfigError:
            continue
        assert config.l1_sets.bit_count() == 1
        assert config.l1_sets * ways * config.line_bytes == config.l1_bytes
    for config in PRESETS.values():
        assert config.stream_beats % 2 == 0
        assert config.stream_beats * config.beat_stride == config.stream_bytes


def test_largest_chip() -> None:
    assert Mesh(16, 16).tiles == TILES_MAX
    assert TileConfig(mesh=Mesh(16, 16)).tiles == TILES_MAX


def test_every_field_and_derived_value_is_described() -> None:
    for field in TileConfig.fields():
        assert field.description
        assert field.allowed
        if field.name.endswith("_bytes"):
            assert field.unit == "bytes"
    derived = TileConfig.derived_fields()
    assert {"hash", "beat_bytes", "lane_pairs"} <= set(derived)
    assert all(meaning.endswith(".") for meaning in derived.values())


def test_json_schema_carries_units_and_ranges() -> None:
    schema = TileConfig.model_json_schema()
    assert schema["additionalProperties"] is False
    lanes = schema["properties"]["lanes"]
    assert (lanes["minimum"], lanes["maximum"], lanes["multipleOf"]) == (2, 512, 2)
    assert schema["properties"]["vec_lanes"]["enum"] == [1, 2, 4, 8, 16, 32]
    assert schema["properties"]["l1_bytes"]["unit"] == "bytes"
    json.dumps(schema)
