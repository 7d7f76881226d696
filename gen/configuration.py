"""Put a configuration together from a preset, a TOML file and single settings.

Later sources win: preset, then file, then ``field=value`` settings. A file holds fields by name and
may name the preset it starts from::

    preset = "small"
    lanes = 8
    mesh = "4x2"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rtl.config import DEFAULT_PRESET, PRESETS, ConfigError, TileConfig, preset


def load(
    preset_name: str | None = None,
    file: Path | None = None,
    settings: Iterable[str] = (),
) -> TileConfig:
    """Return the configuration that a preset, a file and settings describe together.

    Parameters
    ----------
    preset_name
        Preset to start from. Where it is ``None`` the file's own ``preset`` counts, and where there
        is none either, `small`.
    file
        TOML file with fields of `TileConfig`, and optionally ``preset``.
    settings
        Strings ``field=value``, see `parse_setting`.

    Raises
    ------
    ConfigError
        The file cannot be read, or a value is refused. The message names the field, and the file
        where the value comes from it.
    """
    from_file = read_toml(file) if file is not None else {}
    from_settings = dict(parse_setting(setting) for setting in settings)
    named = from_file.pop("preset", DEFAULT_PRESET)
    try:
        base = preset(preset_name or named)
        return TileConfig.from_dict(base.to_dict() | from_file | from_settings)
    except ConfigError as error:
        file_at_fault = error.field in from_file and error.field not in from_settings
        file_at_fault |= error.field == "preset" and preset_name is None
        if file is None or not file_at_fault:
            raise
        raise ConfigError(f"{file}: {error}", field=error.field) from None


def file_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file: any fields, and the preset."""
    schema = TileConfig.model_json_schema()
    schema["title"] = "Configuration of a Jalapeno RTL tile"
    schema["description"] = "Fields that are left out have the value of the preset."
    schema["properties"]["preset"] = {
        "description": "named configuration to start from",
        "type": "string",
        "enum": list(PRESETS),
        "default": DEFAULT_PRESET,
    }
    return schema


def read_toml(file: Path) -> dict[str, Any]:
    """Return the contents of a TOML file.

    Raises
    ------
    ConfigError
        It cannot be read or is not TOML; the message names the file and the reason.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not TOML: it is not UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}.") from None


def parse_setting(setting: str) -> tuple[str, Any]:
    """Return field and value of a string ``field=value``.

    The value is read as TOML (``lanes=8``, ``ecc=true``, ``mesh=[4, 2]``); whatever is not TOML
    counts as text, so that ``mesh=4x2`` and ``timing=hbm4-8000`` need no quotes.

    Raises
    ------
    ConfigError
        There is no ``=``, or nothing before it.
    """
    name, equals, text = (part.strip() for part in setting.partition("="))
    if not (name and equals):
        raise ConfigError(f'"{setting}" is not a setting; write field=value, such as lanes=8.')
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return name, text
    # A text with a line break could smuggle in further keys; it is then no single value.
    return name, document["value"] if len(document) == 1 else text
