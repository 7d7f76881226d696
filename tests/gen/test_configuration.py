"""Configurations from presets, files and settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from gen.configuration import file_schema, load, parse_setting
from rtl.config import PRESETS, ConfigError, Mesh, TileConfig


@pytest.fixture
def toml(tmp_path: Path):
    """Return a function that writes a file, in a path with a space, and returns that path."""

    def write(text: str) -> Path:
        file = tmp_path / "my tile.toml"
        file.write_text(text)
        return file

    return write


def test_nothing_gives_small() -> None:
    assert load() == PRESETS["small"]


def test_settings_win_over_file_and_file_over_preset(toml) -> None:
    file = toml('preset = "base"\nlanes = 16\nmesh = "1x2"\n')
    config = load(None, file, ["lanes=32", "ecc=false"])
    assert config == PRESETS["base"].replace(lanes=32, mesh=Mesh(1, 2), ecc=False)


def test_preset_on_the_command_line_wins_over_the_file(toml) -> None:
    assert load("nano", toml('preset = "base"\nlanes = 16\n')) == PRESETS["nano"].replace(lanes=16)


def test_last_setting_wins() -> None:
    assert load(settings=["lanes=2", "lanes=8"]) == TileConfig(lanes=8)


def test_values_are_checked_together_not_one_by_one(toml) -> None:
    # Neither change is legal without the other.
    config = load(None, toml("pseudo_channels = 32\n"), ["stream_bytes=2048", "l1_bytes=16384"])
    assert (config.pseudo_channels, config.stream_bytes) == (32, 2048)


def test_errors_name_the_file_that_holds_the_value(toml) -> None:
    file = toml("lanes = 3\n")
    with pytest.raises(ConfigError, match=r"my tile\.toml: lanes is 3; it must be an even"):
        load(None, file)
    with pytest.raises(ConfigError, match=r"^vec_lanes is 3"):
        load(None, toml("lanes = 4\n"), ["vec_lanes=3"])
    with pytest.raises(ConfigError, match=r"^lanes is 5"):
        load(None, file, ["lanes=5"])
    with pytest.raises(ConfigError, match=r"my tile\.toml: There is no field lane; did you mean"):
        load(None, toml("lane = 4\n"))


@pytest.mark.parametrize("value", ['"huge"', "3", "[1]"])
def test_bad_preset_in_the_file(toml, value: str) -> None:
    with pytest.raises(ConfigError, match=r"my tile\.toml: preset is .*; it must be one of nano"):
        load(None, toml(f"preset = {value}\n"))


def test_bad_preset_on_the_command_line(toml) -> None:
    with pytest.raises(ConfigError, match=r'^preset is "huge"'):
        load("huge", toml('preset = "base"'))


def test_unreadable_files(tmp_path: Path, toml) -> None:
    with pytest.raises(ConfigError, match="none cannot be read: No such file"):
        load(None, tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(None, tmp_path)
    with pytest.raises(ConfigError, match=r"my tile\.toml is not TOML: .*line 1"):
        load(None, toml("lanes =\n"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load(None, binary)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("lanes=8", ("lanes", 8)),
        (" lanes = 8 ", ("lanes", 8)),
        ("l1_bytes=0x4000", ("l1_bytes", 16384)),
        ("l1_bytes=16_384", ("l1_bytes", 16384)),
        ("ecc=true", ("ecc", True)),
        ("mesh=4x2", ("mesh", "4x2")),
        ("mesh=[4, 2]", ("mesh", [4, 2])),
        ('timing="hbm4-8000"', ("timing", "hbm4-8000")),
        ("timing=hbm4-8000", ("timing", "hbm4-8000")),
        ("lanes=", ("lanes", "")),
        ("lanes=8\nmesh=1", ("lanes", "8\nmesh=1")),
    ],
)
def test_parse_setting(setting: str, expected: tuple) -> None:
    assert parse_setting(setting) == expected


@pytest.mark.parametrize("setting", ["lanes", "=8", "", "="])
def test_not_a_setting(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a setting; write field=value"):
        parse_setting(setting)


def test_schema_of_files_accepts_what_load_accepts() -> None:
    schema = file_schema()
    assert set(schema["properties"]) == {field.name for field in TileConfig.fields()} | {"preset"}
    assert schema["properties"]["preset"]["enum"] == list(PRESETS)
    assert schema["additionalProperties"] is False
    assert "required" not in schema
