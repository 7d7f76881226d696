"""The one configuration a tile, and a chip of tiles, is built from.

`TileConfig` holds every parameter, each with its meaning, unit and allowed range, and everything
that follows from them, computed once. `PRESETS` names the shipped configurations. Reading files and
command lines is `gen.configuration`'s business; nothing here touches the file system.

Sizes in bytes are sizes in the *byte address space*, where a beat occupies the next power of two of
``16 * pseudo_channels`` bytes (see `TileConfig.beat_stride`); every memory depth is then a whole
number of beats, also with six pseudo-channels.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from rtl.core.isa import MASK_ROWS, PHYSICAL_VECTORS
from rtl.formats import BLOCK, Format

KIB = 1024
MESH_MAX = 16
TILES_MAX = 256
ACCESS_BEATS = 2
"""Beats of one HBM access: 32 bytes from every pseudo-channel, in two cycles."""


class ConfigError(ValueError):
    """A configuration was refused; the message is one sentence that says what is allowed.

    Attributes
    ----------
    field
        Name of the field at fault, where there is one.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Mesh(NamedTuple):
    """Tiles of a chip in x and y."""

    x: int
    y: int

    @property
    def tiles(self) -> int:
        """Tiles of the chip."""
        return self.x * self.y

    def __str__(self) -> str:
        return f"{self.x}x{self.y}"


@dataclass(frozen=True)
class FieldInfo:
    """What is known about one field of `TileConfig`.

    Attributes
    ----------
    name
        Name of the field.
    description
        What it means, as a phrase.
    unit
        Unit of the value; empty where it is a plain count or a choice.
    allowed
        Allowed values, as the end of the sentence "it must be ...".
    default
        The value in the preset `small`.
    """

    name: str
    description: str
    unit: str
    allowed: str
    default: Any


def _power_of_two(value: int) -> int:
    if value.bit_count() != 1:
        raise ValueError("not a power of two")
    return value


def _mesh(value: Any) -> Mesh:
    """Turn ``"2x2"`` or a pair of whole numbers into a `Mesh`."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,3}x[0-9]{1,3}", value):
        value = [int(part) for part in value.split("x")]
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("not a pair")
    if not all(type(n) is int and 1 <= n <= MESH_MAX for n in value):
        raise ValueError("not two whole numbers in range")
    return Mesh(*value)


PowerOfTwo = Annotated[int, AfterValidator(_power_of_two)]

MeshField = Annotated[
    Mesh,
    BeforeValidator(_mesh),
    PlainSerializer(list, return_type=list[int]),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 1, "maximum": MESH_MAX},
                    "minItems": 2,
                    "maxItems": 2,
                },
                {"type": "string", "pattern": "^[0-9]{1,3}x[0-9]{1,3}$"},
            ]
        }
    ),
]


def _count(
    default: int, low: int, high: int, description: str, unit: str = "", *, step: int = 1
) -> Any:
    """Declare a whole number from `low` to `high`, a multiple of `step`."""
    kind = {1: "a whole number", 2: "an even number"}[step]
    return Field(
        default,
        strict=True,
        ge=low,
        le=high,
        multiple_of=step if step > 1 else None,
        description=description,
        json_schema_extra={"unit": unit, "allowed": f"{kind} from {low} to {high}"},
    )


def _power(default: int, low: int, high: int, description: str, unit: str = "") -> Any:
    """Declare a power of two from `low` to `high`; the field's type is `PowerOfTwo`."""
    powers = [1 << n for n in range(low.bit_length() - 1, high.bit_length())]
    return Field(
        default,
        strict=True,
        ge=low,
        le=high,
        description=description,
        json_schema_extra={
            "unit": unit,
            "allowed": f"a power of two from {low} to {high}",
            "enum": list(powers),
        },
    )


def _choice(default: Any, allowed: str, description: str, unit: str = "") -> Any:
    """Declare a field whose type decides what is valid; `allowed` says it in words."""
    return Field(
        default, description=description, json_schema_extra={"unit": unit, "allowed": allowed}
    )


class TileConfig(BaseModel):
    """Every parameter of a tile and of the chip it is part of; immutable and always valid.

    Parameters are given by keyword; those left out have the value of the preset `small`.

    Raises
    ------
    ConfigError
        A field is unknown, out of range or at odds with another.

    Examples
    --------
    >>> TileConfig(lanes=8).lane_pairs
    4
    >>> TileConfig(lanes=3)
    Traceback (most recent call last):
    ...
    rtl.config.ConfigError: lanes is 3; it must be an even number from 2 to 512.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    pseudo_channels: int = _count(
        1, 1, 32, "HBM pseudo-channels of the slice; each brings 16 bytes per cycle"
    )
    lanes: int = _count(
        4, 2, 512, "token lanes of nibble planes; two fuse for an 8-bit activation", step=2
    )
    acc_depth: int = _count(32, 1, 1024, "output neurons in flight per column")
    acc_bits: int = _count(
        48, 32, 52, "width of a window accumulator; the only field that changes result bits", "bits"
    )
    formats: Literal["mxfp4", "mxfp4+mxint8"] = _choice(
        "mxfp4+mxint8", '"mxfp4" or "mxfp4+mxint8"', "element formats of the matrix engine"
    )
    vec_lanes: PowerOfTwo = _power(4, 1, BLOCK, "FP32 lanes of the vector unit")
    act_blocks: int = _count(
        96, 1, 4096, "activation blocks resident per lane; longer K goes in chunks", "blocks"
    )
    vector_bytes: PowerOfTwo = _power(
        32 * KIB, 4 * KIB, 4096 * KIB, "vector register file", "bytes"
    )
    l1_bytes: PowerOfTwo = _power(
        16 * KIB, 64, 4096 * KIB, "L1 cache in front of the HBM slice", "bytes"
    )
    l1_ways: PowerOfTwo = _power(4, 1, 16, "ways of the L1 cache")
    stream_bytes: int = _count(
        4 * KIB, 0, 1024 * KIB, "weight prefetch buffer of the matrix engine; 0 is none", "bytes"
    )
    issue_window: int = _count(8, 1, 64, "macro-ops considered for issue; 1 is in order")
    program_bytes: PowerOfTwo = _power(
        64 * KIB, KIB, 4096 * KIB, "memory for the program of the core", "bytes"
    )
    ring_bytes: PowerOfTwo = _power(8, 4, 128, "ring payload per direction and cycle", "bytes")
    flit_bytes: PowerOfTwo = _power(16, 4, 128, "payload of a NoC flit", "bytes")
    noc_buffer: int = _count(4, 1, 64, "depth of a NoC router's input buffer", "flits")
    mesh: MeshField = _choice(
        Mesh(2, 2),
        f'two whole numbers from 1 to {MESH_MAX}, such as "2x2" or [2, 2]',
        "tiles of the chip in x and y",
        unit="tiles",
    )
    timing: Literal["hbm3-6400", "hbm4-8000"] = _choice(
        "hbm3-6400", '"hbm3-6400" or "hbm4-8000"', "HBM timing set after reset"
    )
    ecc: StrictBool = _choice(
        True, "true or false", "single-error correction, double-error detection on HBM data"
    )
    transposer: StrictBool = _choice(
        True, "true or false", "32x32 nibble transposer in the fetch path, which attention needs"
    )

    # Overriding the constructor is what turns pydantic's report into one `ConfigError`. Type
    # checkers must not see it: they would lose the keyword arguments derived from the fields.
    if not TYPE_CHECKING:

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _refusal(error, values) from None

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        two_beats = ACCESS_BEATS * self.beat_stride
        if self.stream_bytes % two_beats:
            raise ConfigError(
                f"stream_bytes is {self.stream_bytes}; with pseudo_channels {self.pseudo_channels} "
                f"it must be 0 or a multiple of {two_beats}, the address space of two beats.",
                field="stream_bytes",
            )
        if self.l1_bytes < self.l1_ways * self.line_bytes:
            raise ConfigError(
                f"l1_bytes is {self.l1_bytes}; with l1_ways {self.l1_ways} and lines of "
                f"{self.line_bytes} bytes it must be at least {self.l1_ways * self.line_bytes}.",
                field="l1_bytes",
            )
        if self.tiles > TILES_MAX:
            raise ConfigError(f'mesh is "{self.mesh}"; a chip must have at most {TILES_MAX} tiles.')
        return self

    # --- reading and writing -------------------------------------------------------------------

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the configuration with the fields in `values`, as JSON or TOML gives them.

        Raises
        ------
        ConfigError
            A field is unknown, out of range or at odds with another.
        """
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return every field as plain JSON values, in the order of declaration."""
        return self.model_dump(mode="json")

    def to_json(self) -> str:
        """Return the canonical JSON text: sorted keys, no white space."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))

    def replace(self, **changes: Any) -> Self:
        """Return a copy with `changes` made, validated like any other configuration.

        Raises
        ------
        ConfigError
            A field is unknown, out of range or at odds with another.
        """
        return self.from_dict({**self.to_dict(), **changes})

    @classmethod
    def fields(cls) -> tuple[FieldInfo, ...]:
        """Return name, meaning, unit, allowed values and default of every field."""
        infos = []
        for name, field in cls.model_fields.items():
            extra = field.json_schema_extra
            assert isinstance(extra, dict)
            infos.append(
                FieldInfo(
                    name=name,
                    description=field.description or "",
                    unit=str(extra["unit"]),
                    allowed=str(extra["allowed"]),
                    default=field.default,
                )
            )
        return tuple(infos)

    # --- derived values, each computed once ----------------------------------------------------

    @cached_property
    def hash(self) -> str:
        """Twelve hex digits that identify this configuration wherever it leaves a mark."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    @cached_property
    def element_formats(self) -> tuple[Format, ...]:
        """Element formats the matrix engine supports."""
        return tuple(Format(name) for name in self.formats.split("+"))

    @cached_property
    def beat_bytes(self) -> int:
        """Bytes of a beat: what the HBM slice brings per cycle."""
        return 16 * self.pseudo_channels

    @cached_property
    def beat_bits(self) -> int:
        """Bits of a beat."""
        return 8 * self.beat_bytes

    @cached_property
    def beat_stride(self) -> int:
        """Bytes of address space a beat occupies: the next power of two of its size."""
        return 1 << (self.beat_bytes - 1).bit_length()

    @cached_property
    def superblock_blocks(self) -> int:
        """Blocks whose scales share one beat."""
        return self.beat_bytes

    @cached_property
    def lane_pairs(self) -> int:
        """Pairs of lanes that fuse for 8-bit activations."""
        return self.lanes // 2

    @cached_property
    def group_outputs(self) -> int:
        """Output neurons of a group: in flight in all columns together."""
        return self.acc_depth * self.pseudo_channels

    @cached_property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates per cycle at 4x4, every lane busy."""
        return BLOCK * self.pseudo_channels * self.lanes

    @cached_property
    def stream_beats(self) -> int:
        """Beats the weight prefetch buffer holds."""
        return self.stream_bytes // self.beat_stride

    @cached_property
    def vector_words(self) -> int:
        """FP32 words of the vector register file."""
        return self.vector_bytes // 4

    @cached_property
    def vector_length(self) -> int:
        """FP32 words of one vector register."""
        return self.vector_words // PHYSICAL_VECTORS

    @cached_property
    def row_length(self) -> int:
        """Rows of a row register: a multiple of 32, and at least one for each lane."""
        return -(-self.lanes // MASK_ROWS) * MASK_ROWS

    @cached_property
    def line_bytes(self) -> int:
        """Bytes of address space an L1 line occupies: one HBM access."""
        return ACCESS_BEATS * self.beat_stride

    @cached_property
    def l1_sets(self) -> int:
        """Sets of the L1 cache."""
        return self.l1_bytes // (self.l1_ways * self.line_bytes)

    @cached_property
    def tiles(self) -> int:
        """Tiles of the chip."""
        return self.mesh.tiles

    @classmethod
    def derived_fields(cls) -> dict[str, str]:
        """Return name and meaning of every derived value."""
        return {
            name: (member.__doc__ or "").partition("\n")[0]
            for name, member in vars(cls).items()
            if isinstance(member, cached_property)
        }


def _refusal(error: ValidationError, values: Mapping[str, Any]) -> ConfigError:
    """Return the first complaint of `error` as one sentence."""
    first = error.errors()[0]
    if not first["loc"]:
        raised = first["ctx"]["error"]
        assert isinstance(raised, ConfigError)
        return raised
    name = str(first["loc"][0])
    field = TileConfig.model_fields.get(name)
    if field is None:
        near = difflib.get_close_matches(name, TileConfig.model_fields, n=2, cutoff=0.5)
        known = ", ".join(TileConfig.model_fields)
        hint = f"did you mean {' or '.join(near)}?" if near else f"choose from {known}."
        return ConfigError(f"There is no field {name}; {hint}", field=name)
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    value = json.dumps(values[name], ensure_ascii=False, default=str)
    return ConfigError(f"{name} is {value}; it must be {extra['allowed']}.", field=name)


DEFAULT_PRESET = "small"

PRESETS: Mapping[str, TileConfig] = MappingProxyType(
    {
        "nano": TileConfig(
            lanes=2,
            act_blocks=16,
            vector_bytes=16 * KIB,
            l1_bytes=4 * KIB,
            l1_ways=2,
            stream_bytes=1 * KIB,
            issue_window=4,
            flit_bytes=8,
            noc_buffer=2,
            mesh=Mesh(2, 1),
        ),
        "small": TileConfig(),
        "base": TileConfig(
            pseudo_channels=2,
            lanes=8,
            vec_lanes=8,
            vector_bytes=64 * KIB,
            l1_bytes=32 * KIB,
            stream_bytes=8 * KIB,
            ring_bytes=16,
            flit_bytes=32,
            mesh=Mesh(4, 2),
        ),
        "slice": TileConfig(
            pseudo_channels=6,
            lanes=218,
            acc_depth=64,
            vec_lanes=16,
            act_blocks=128,
            vector_bytes=512 * KIB,
            l1_bytes=512 * KIB,
            l1_ways=8,
            stream_bytes=64 * KIB,
            issue_window=16,
            ring_bytes=32,
            flit_bytes=64,
            noc_buffer=8,
            mesh=Mesh(1, 1),
            timing="hbm4-8000",
        ),
    }
)
"""Named configurations: `nano`, `small` (the default), `base`, and `slice` with the real ratios."""


def preset(name: str) -> TileConfig:
    """Return the preset called `name`.

    Raises
    ------
    ConfigError
        There is no such preset.
    """
    if not isinstance(name, str) or name not in PRESETS:
        names = ", ".join(PRESETS)
        value = json.dumps(name, ensure_ascii=False, default=str)
        raise ConfigError(f"preset is {value}; it must be one of {names}.", field="preset")
    return PRESETS[name]
