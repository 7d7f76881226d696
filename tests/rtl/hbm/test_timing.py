"""The timing sets."""

import pytest

from rtl.config import TileConfig
from rtl.hbm.timing import FIELD_BITS, FIELDS, TIMINGS, pack


def test_every_configurable_set_exists():
    for name in ("hbm3-6400", "hbm4-8000"):
        assert TileConfig(timing=name).timing in TIMINGS


def test_documented_latencies():
    timing = TIMINGS["hbm3-6400"]
    assert (timing.read_hit, timing.read_closed, timing.read_conflict) == (22, 53, 79)
    assert timing.refi_pb == 390
    assert TIMINGS["hbm4-8000"].refi_pb == 487


def test_every_field_has_a_meaning():
    assert all(FIELDS.values())
    assert list(TIMINGS["tiny"].to_dict()) == list(FIELDS)


def test_packing_puts_the_first_field_lowest():
    values = {name: i + 1 for i, name in enumerate(FIELDS)}
    packed = pack(values)
    for name, value in values.items():
        assert packed & ((1 << FIELD_BITS) - 1) == value, name
        packed >>= FIELD_BITS
    assert packed == 0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"refi": 1 << 16}, "refi is 65536"),
        ({"banks": 12}, "banks is 12; it must be a power of two"),
        ({"bank_groups": 32}, "bank_groups is 32; it must be at most banks, 16"),
        ({"rrd_s": 6}, "rrd_s is 6; it must be at most rrd_l, 5"),
        ({"ccd_s": 1}, "ccd_s is 1"),
        ({"rtw": 11}, "rtw is 11"),
        ({"rrd_s": 1}, "rrd_s is 1"),
        ({"cl": 62, "rtw": 60}, "cl and wl"),
        ({"wl": 0, "rtw": 60}, "cl and wl"),
    ],
)
def test_nonsense_is_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        TIMINGS["hbm3-6400"].replace(**changes)
