"""Where everything is in a tile's memory."""

from __future__ import annotations

from dataclasses import dataclass

from rtl.config import TileConfig


class DoesNotFit(ValueError):
    """Something does not fit; the message says what, and by how much."""


@dataclass(frozen=True)
class Region:
    """A run of memory with a name.

    Attributes
    ----------
    name
        What it is called.
    address
        Its first byte; regions begin at even beats.
    size
        Bytes.
    description
        What is in it.
    """

    name: str
    address: int
    size: int
    description: str

    @property
    def end(self) -> int:
        """First byte behind it."""
        return self.address + self.size


class MemoryMap:
    """Regions, one after the other.

    Parameters
    ----------
    config
        Of the tile.
    capacity
        Bytes there are; without limit if left out (32 bits of address).
    """

    def __init__(self, config: TileConfig, capacity: int = 1 << 32) -> None:
        self.config, self.capacity = config, capacity
        self.regions: list[Region] = []

    @property
    def end(self) -> int:
        """First byte behind the last region."""
        return self.regions[-1].end if self.regions else 0

    def add(self, name: str, size: int, description: str) -> Region:
        """Add a region behind the others.

        Parameters
        ----------
        name, description
            What it is.
        size
            Bytes; the region takes whole pairs of beats.

        Raises
        ------
        DoesNotFit
            If memory ends before it.
        """
        assert all(name != region.name for region in self.regions), f"{name} is added twice"
        size = align(self.config, size)
        if self.end + size > self.capacity:
            raise DoesNotFit(
                f"{name} needs {size:,} bytes, {self.end + size - self.capacity:,} more than are "
                f"left of the tile's {self.capacity:,}."
            )
        region = Region(name, self.end, size, description)
        self.regions.append(region)
        return region

    def __getitem__(self, name: str) -> Region:
        """Return the region of that name."""
        for region in self.regions:
            if region.name == name:
                return region
        raise KeyError(name)

    def rows(self) -> list[dict[str, str]]:
        """Return the map as rows of a table."""
        return [
            {
                "region": region.name,
                "from": f"{region.address:#010x}",
                "to": f"{region.end:#010x}",
                "bytes": f"{region.size:,}",
                "what": region.description,
            }
            for region in self.regions
        ]


def align(config: TileConfig, size: int) -> int:
    """Return `size` rounded up to whole pairs of beats."""
    return -(-size // config.line_bytes) * config.line_bytes
