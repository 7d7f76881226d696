"""The page about the instruction set is what the table gives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gen import isa_page
from rtl.core.fields import OPCODE_BITS
from rtl.core.isa import OPCODES

ROOT = Path(__file__).parents[2]
PAGE = isa_page.page()


def section(heading):
    """Return what is below a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#|\Z)", PAGE, re.M | re.S)
    assert found, heading
    return found[1]


def rows(text):
    """Return the rows of a table, as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_the_page_is_that_of_the_table():
    """If not: ``python -m gen.isa_page > docs/isa.md``."""
    assert (ROOT / "docs" / "isa.md").read_text(encoding="utf-8") == PAGE


def test_the_command():
    command = [sys.executable, "-m", "gen.isa_page"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert result.stdout.decode("utf-8") == PAGE


@pytest.mark.parametrize("opcode", OPCODES.values(), ids=OPCODES)
def test_every_field_is_there_with_its_bits(opcode):
    text = section(opcode.name)
    assert f"Opcode 0x{opcode.number:02x}, {opcode.words} word" in text
    low = OPCODE_BITS
    table = rows(text)
    assert [row[0] for row in table] == [f"`{field.name}`" for field in opcode.fields]
    for field, row in zip(opcode.fields, table, strict=True):
        high = low + field.width - 1
        assert row[1] == (f"{high}:{low}" if field.width > 1 else str(low))
        assert row[5].replace("`", "") == field.description.replace("`", "")
        if field.default is not None:
            assert row[4] == field.text(field.default)
        low = high + 1


def test_every_choice_has_a_table_of_its_own():
    choices = {f.choices for o in OPCODES.values() for f in o.fields if f.choices is not None}
    assert len(choices) >= 10
    for each in choices:
        table = rows(section(f"Choices of {each.__name__}"))
        assert [(int(row[0]), row[1]) for row in table] == [(int(c), c.name) for c in each]


def test_all_links_lead_somewhere():
    headings = re.findall(r"^#+ (.*)$", PAGE, re.M)
    anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
    assert len(anchors) == len(headings)
    for target in re.findall(r"\]\(([^)]*)\)", PAGE):
        file, _, anchor = target.partition("#")
        if file:
            assert (ROOT / "docs" / file).exists(), target
        else:
            assert anchor in anchors, target


def test_lines_are_short_and_tables_whole():
    for line in PAGE.splitlines():
        if line.startswith("|"):
            assert line.count("|") - line.count("\\|") >= 3
        else:
            assert len(line) <= 100
        assert line == line.rstrip()
