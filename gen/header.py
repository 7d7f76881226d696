"""C header of a generated block: configuration, registers and counters as constants."""

from __future__ import annotations

from collections.abc import Iterator

from rtl.config import Mesh, TileConfig
from rtl.registers import Described


def c_header(name: str, config: TileConfig, register_map: Described | None = None) -> str:
    """Return the text of the header for the block `name`.

    Every constant is a ``#define``, so that the header serves C, C++ and assembler alike. All start
    with ``JALAPENO_`` and the block's name:

    - ``..._CONFIG_HASH``, and ``..._CONFIG_<FIELD>`` for every field of the configuration; true is
      1, and the mesh is two constants, ``_X`` and ``_Y``;
    - ``..._<REGISTER>_OFFSET`` in bytes, and for every field ``..._<REGISTER>_<FIELD>_SHIFT``,
      ``_MASK`` (in place) and ``_RESET`` (from bit 0);
    - ``..._COUNTER_<COUNTER>_OFFSET`` in bytes, and ``_BITS``.
    """
    prefix = f"JALAPENO_{name.upper()}"
    lines = [
        f"/* Block {name} of Jalapeno RTL; generated, do not edit. */",
        f"#ifndef {prefix}_H",
        f"#define {prefix}_H",
        *_configuration(prefix, config),
    ]
    if register_map is not None:
        lines += _registers(prefix, register_map)
        lines += _counters(prefix, register_map)
    lines += ["", f"#endif /* {prefix}_H */"]
    return "\n".join(lines) + "\n"


def _configuration(prefix: str, config: TileConfig) -> Iterator[str]:
    yield from ("", "/* Configuration. */")
    yield f"#define {prefix}_CONFIG_HASH 0x{config.hash}ULL"
    for field in TileConfig.fields():
        macro = f"{prefix}_CONFIG_{field.name.upper()}"
        match getattr(config, field.name):
            case Mesh(x, y):
                constants = {f"{macro}_X": str(x), f"{macro}_Y": str(y)}
            case bool(value):
                constants = {macro: str(int(value))}
            case str(value):
                constants = {macro: f'"{value}"'}
            case value:
                constants = {macro: str(value)}
        for constant, literal in constants.items():
            yield f"#define {constant} {literal} /* {field.description} */"


def _registers(prefix: str, register_map: Described) -> Iterator[str]:
    for register in register_map.to_dict()["registers"]:
        macro = f"{prefix}_{register['name'].upper()}"
        yield from ("", f"/* {register['description']} */")
        yield f"#define {macro}_OFFSET 0x{register['offset']:x}"
        for field in register["fields"]:
            part = f"{macro}_{field['name'].upper()}"
            mask = ((1 << field["bits"]) - 1) << field["lsb"]
            yield f"#define {part}_SHIFT {field['lsb']} /* {field['description']} */"
            yield f"#define {part}_MASK 0x{mask:08x}u"
            yield f"#define {part}_RESET 0x{field['reset']:x}u"


def _counters(prefix: str, register_map: Described) -> Iterator[str]:
    for counter in register_map.to_dict()["counters"]:
        macro = f"{prefix}_COUNTER_{counter['name'].upper()}"
        yield from ("", f"/* {counter['description']} */")
        yield f"#define {macro}_OFFSET 0x{counter['offset']:x}"
        yield f"#define {macro}_BITS {counter['bits']}"
