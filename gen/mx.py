"""MX tensors: element codes and scale bytes in blocks of 32, and how files order them.

The container keeps *codes*, not values, because codes are what memory holds and because the integer
behind an MXFP4 code has lost the sign of a zero. It is shared by the packer (`gen.layout`), the
quantiser (`gen.quantise`) and the golden model, and knows nothing of hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtl.formats import BLOCK, E2M1_HALF_UNITS, SCALE_NAN, Format

Bytes = NDArray[np.uint8]
"""Codes, scales or beats."""

_SIGN = np.uint8(8)
_NIBBLE = np.uint8(4)
_HALF_UNITS = np.array([*E2M1_HALF_UNITS, *(-q for q in E2M1_HALF_UNITS)], np.int8)


def decode_elements(codes: Bytes, fmt: Format) -> NDArray[np.int8]:
    """Return the integers behind element codes, in units of the format.

    Parameters
    ----------
    codes : uint8 array of any shape
        MXFP4: 0 to 15. MXINT8: two's complement bytes.
    fmt : Format
        Element format.

    Returns
    -------
    int8 array
        MXFP4: half units, in ``{0, ±1, ±2, ±3, ±4, ±6, ±8, ±12}``; code 8 (minus zero) gives 0.
        MXINT8: 1/64 units, -128 to 127.

    Raises
    ------
    ValueError
        If `codes` is not uint8, or an MXFP4 code is above 15.
    """
    _check_codes(codes, fmt)
    return codes.view(np.int8) if fmt is Format.MXINT8 else _HALF_UNITS[codes]


def encode_elements(elements: NDArray[Any], fmt: Format) -> Bytes:
    """Return the element codes of integers, in units of the format; the inverse of decoding.

    Parameters
    ----------
    elements : integer array of any shape
        Units as for `decode_elements`. Zero becomes plus zero.
    fmt : Format
        Element format.

    Returns
    -------
    uint8 array
        Codes of the same shape.

    Raises
    ------
    ValueError
        If an element has no code in `fmt`.
    """
    elements = np.asarray(elements, np.int64)
    if fmt is Format.MXINT8:
        _check_elements(elements, (elements >= -128) & (elements <= 127), "-128 to 127", fmt)
        return elements.astype(np.int8).view(np.uint8)
    allowed = np.isin(np.abs(elements), E2M1_HALF_UNITS)
    _check_elements(elements, allowed, "0, ±1, ±2, ±3, ±4, ±6, ±8 or ±12", fmt)
    magnitude = np.searchsorted(E2M1_HALF_UNITS, np.abs(elements)).astype(np.uint8)
    return np.where(elements < 0, magnitude | _SIGN, magnitude)


def nibble_planes(codes: Bytes, fmt: Format) -> Bytes:
    """Return the nibbles in which the matrix engine takes elements: high plane first.

    Parameters
    ----------
    codes : uint8 [..., 32]
        Element codes.
    fmt : Format
        Element format.

    Returns
    -------
    uint8 [..., planes, 32]
        0 to 15. One plane for MXFP4; for MXINT8 the signed high nibble, then the unsigned low one.
    """
    _check_codes(codes, fmt)
    planes = [codes >> _NIBBLE, codes & 15] if fmt is Format.MXINT8 else [codes]
    return np.stack(planes, axis=-2)


def join_planes(planes: Bytes, fmt: Format) -> Bytes:
    """Return the element codes of nibble planes; the inverse of `nibble_planes`.

    Parameters
    ----------
    planes : uint8 [..., planes, 32]
        Nibbles, 0 to 15.
    fmt : Format
        Element format.

    Returns
    -------
    uint8 [..., 32]
        Element codes.
    """
    if fmt is Format.MXINT8:
        return planes[..., 0, :] << _NIBBLE | planes[..., 1, :]
    return planes[..., 0, :]


def pack_nibbles(nibbles: Bytes) -> Bytes:
    """Pack nibbles [..., 2·m] into bytes [..., m], the even one low (as gpt-oss checkpoints do)."""
    return nibbles[..., 0::2] | nibbles[..., 1::2] << _NIBBLE


def unpack_nibbles(packed: Bytes) -> Bytes:
    """Unpack bytes [..., m] into nibbles [..., 2·m], the low one first; inverts `pack_nibbles`."""
    pairs = np.stack([packed & 15, packed >> _NIBBLE], axis=-1)
    return pairs.reshape(*packed.shape[:-1], -1)


@dataclass(frozen=True, eq=False)
class MXTensor:
    """An array of numbers in blocks of 32 along its last axis, each block with one scale.

    Block b of a row holds elements ``32·b`` to ``32·b + 31``. The row is as long as `length` says,
    the rest of its last block is code 0. The arrays are read-only.

    Parameters
    ----------
    codes : uint8 [..., n, 32]
        Element codes. MXFP4: 0 to 15. MXINT8: two's complement bytes.
    scales : uint8 [..., n]
        E8M0 bytes, 255 being NaN.
    format : Format
        Element format.
    length : int
        Elements of a row before padding, K; ``ceil(length / 32)`` is ``n``.

    Raises
    ------
    ValueError
        If a shape, a dtype, a code, the length or the padding is not as described.
    """

    codes: Bytes
    scales: Bytes
    format: Format
    length: int

    def __post_init__(self) -> None:
        for name in ("codes", "scales"):
            array = np.asarray(getattr(self, name)).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        _check_codes(self.codes, self.format)
        if self.scales.dtype != np.uint8:
            raise ValueError(f"scales has dtype {self.scales.dtype}, it must be uint8.")
        if self.codes.ndim < 2 or self.codes.shape != (*self.scales.shape, BLOCK):
            raise ValueError(
                f"codes has shape {self.codes.shape} and scales {self.scales.shape}, "
                f"they must be [..., n, {BLOCK}] and [..., n]."
            )
        if self.length < 1 or -(-self.length // BLOCK) != self.blocks:
            raise ValueError(
                f"length is {self.length}, with {self.blocks} blocks of {BLOCK} it must be "
                f"{BLOCK * (self.blocks - 1) + 1} to {BLOCK * self.blocks}."
            )
        if self.codes[..., -1, self.length - BLOCK * (self.blocks - 1) :].any():
            raise ValueError(f"codes after element {self.length} must all be 0, some are not.")

    @classmethod
    def from_elements(
        cls, elements: NDArray[Any], scales: Bytes, fmt: Format, length: int | None = None
    ) -> MXTensor:
        """Build a tensor from the integers behind its codes.

        Parameters
        ----------
        elements : integer [..., n, 32]
            Units as for `decode_elements`.
        scales : uint8 [..., n]
            E8M0 bytes.
        fmt : Format
            Element format.
        length : int, optional
            Elements of a row before padding; by default all ``32·n``.
        """
        codes = encode_elements(elements, fmt)
        return cls(codes, scales, fmt, BLOCK * codes.shape[-2] if length is None else length)

    @property
    def blocks(self) -> int:
        """Blocks of a row, n."""
        return self.scales.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the numbers: the leading axes, then `length`."""
        return (*self.scales.shape[:-1], self.length)

    @cached_property
    def elements(self) -> NDArray[np.int8]:
        """The integers q behind the codes, int8 [..., n, 32], in units of ``2**exponents``."""
        return decode_elements(self.codes, self.format)

    @property
    def nan(self) -> NDArray[np.bool_]:
        """Blocks that are NaN as a whole, bool [..., n]."""
        return self.scales == SCALE_NAN

    @property
    def exponents(self) -> NDArray[np.int32]:
        """Exponent e of one unit, int32 [..., n]; without meaning where `nan`."""
        return self.scales.astype(np.int32) - self.format.unit_offset

    @property
    def maximum_scale(self) -> Bytes:
        """Greatest scale of each row, uint8 [...]: NaN left out, 0 if nothing else is left."""
        return np.where(self.nan, np.uint8(0), self.scales).max(-1)

    def without_scales(self) -> MXTensor:
        """Return the same codes with every unit worth one (e = 0).

        This is what the matrix engine sees of V, whose scales are in the probabilities.
        """
        scales = np.full_like(self.scales, self.format.unit_offset)
        return MXTensor(self.codes, scales, self.format, self.length)

    def column_operand(self, chunk: int) -> MXTensor:
        """Turn one 32-wide chunk of position-major rows into integers in blocks along positions.

        Parameters
        ----------
        chunk : int
            Block index along the last axis of this [positions, D] tensor.

        Returns
        -------
        MXTensor [32, positions]
            Element (d, j) is element ``32·chunk + d`` of row j, as an integer (e = 0). This is the
            right operand of P·V.
        """
        if self.codes.ndim != 3:
            raise ValueError(f"shape is {self.shape}, it must be [positions, D].")
        if not 0 <= chunk < self.blocks:
            raise ValueError(f"chunk is {chunk}, it must be 0 to {self.blocks - 1}.")
        positions = self.codes.shape[0]
        columns = np.zeros((BLOCK, -(-positions // BLOCK), BLOCK), np.uint8)
        columns.reshape(BLOCK, -1)[:, :positions] = self.codes[:, chunk].T
        scales = np.full(columns.shape[:-1], self.format.unit_offset, np.uint8)
        return MXTensor(columns, scales, self.format, positions)

    def __getitem__(self, index: Any) -> MXTensor:
        """Select along the leading axes; blocks stay whole."""
        return MXTensor(self.codes[index], self.scales[index], self.format, self.length)

    def __eq__(self, other: object) -> bool:
        """Return whether format, length, every code and every scale are the same."""
        if not isinstance(other, MXTensor):
            return NotImplemented
        return (
            (self.format, self.length) == (other.format, other.length)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.scales, other.scales)
        )

    def __repr__(self) -> str:
        """Return shape and format, not the data."""
        return f"MXTensor({'×'.join(map(str, self.shape))} {self.format})"


def from_gptoss(blocks: Bytes, scales: Bytes) -> MXTensor:
    """Read MXFP4 as gpt-oss checkpoints store it.

    Parameters
    ----------
    blocks : uint8 [..., n, 16]
        Two codes per byte, the even element in the low nibble.
    scales : uint8 [..., n]
        E8M0 bytes, with the bias of 127 that OCP gives them.

    Returns
    -------
    MXTensor [..., 32·n]
    """
    return MXTensor(unpack_nibbles(blocks), scales, Format.MXFP4, BLOCK * blocks.shape[-2])


def to_gptoss(tensor: MXTensor) -> tuple[Bytes, Bytes]:
    """Return `blocks` and `scales` as `from_gptoss` takes them (padding included)."""
    if tensor.format is not Format.MXFP4:
        raise ValueError(f"format is {tensor.format}, gpt-oss checkpoints hold {Format.MXFP4}.")
    return pack_nibbles(tensor.codes), tensor.scales


def from_gguf(data: Bytes) -> MXTensor:
    """Read MXFP4 as GGUF files store it.

    Parameters
    ----------
    data : uint8 [..., 17·n]
        Blocks of 17 bytes: the E8M0 scale, then 16 bytes of codes. Byte j holds element j in its
        low nibble and element j + 16 in its high nibble.

    Returns
    -------
    MXTensor [..., 32·n]

    Raises
    ------
    ValueError
        If a row is not a whole number of blocks.
    """
    if data.shape[-1] % 17:
        raise ValueError(f"data has rows of {data.shape[-1]} bytes, they must be a multiple of 17.")
    rows = data.reshape(*data.shape[:-1], -1, 17)
    codes = np.concatenate([rows[..., 1:] & 15, rows[..., 1:] >> _NIBBLE], axis=-1)
    return MXTensor(codes, rows[..., 0], Format.MXFP4, BLOCK * rows.shape[-2])


def _check_codes(codes: Bytes, fmt: Format) -> None:
    if codes.dtype != np.uint8:
        raise ValueError(f"codes has dtype {codes.dtype}, it must be uint8.")
    if fmt is Format.MXFP4 and codes.size and codes.max() > 15:
        raise ValueError(f"codes holds {codes.max()}, codes of {fmt} are 0 to 15.")


def _check_elements(
    elements: NDArray[np.int64], allowed: NDArray[np.bool_], names: str, fmt: Format
) -> None:
    if not allowed.all():
        raise ValueError(f"elements holds {elements[~allowed][0]}, {fmt} has {names}.")
