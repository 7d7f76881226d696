"""Tables of energies: what they give, and which are refused."""

from __future__ import annotations

import pytest

from sim.sweep.energy import DEFAULT, EVENTS, EnergyError, default_table, read_table


def test_the_default_table_prices_every_event() -> None:
    table = default_table()
    assert set(table.picojoules) == set(EVENTS)
    assert table.estimate({"mac44": 1000, "hbm_byte": 2}) == pytest.approx(25 + 62.8)
    assert table.estimate({}) is None


def test_every_number_has_a_source() -> None:
    text = DEFAULT.read_text()
    assert text.count("\nsource = ") == text.count("\nwhat = ") == len(EVENTS)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("[mac44]", "[mac45]"), "there is no event mac45; choose from hbm_byte,"),
        (("pj = 0.025", "pj = -1"), "mac44.pj is -1; it must be a number of pJ from 0."),
        (("pj = 0.025", 'pj = "x"'), "mac44.pj is x; it must be a number of pJ from 0."),
        (("pj = 0.025\n", ""), "mac44.pj is None; it must be a number of pJ from 0."),
    ],
)
def test_refusals(tmp_path, change: tuple[str, str], sentence: str) -> None:
    file = tmp_path / "table.toml"
    file.write_text(DEFAULT.read_text().replace(*change))
    with pytest.raises(EnergyError) as refused:
        read_table(file)
    assert sentence in str(refused.value)


def test_the_hash_is_of_the_numbers(tmp_path) -> None:
    file = tmp_path / "table.toml"
    file.write_text(DEFAULT.read_text().replace("7 nm", "five"))
    assert read_table(file).hash == default_table().hash
    file.write_text(DEFAULT.read_text().replace("0.025", "0.03"))
    assert read_table(file).hash != default_table().hash
