"""Faults put into the core on purpose: its tests must notice every one."""

import pytest

from rtl.config import PRESETS
from tests.tb.mutants import Mutant, notice, params

CONFIG = PRESETS["nano"]

MUTANTS = [
    Mutant("readers are not waited for", "core/window.py",
           "new.row_writes & (t.row_writes | t.row_reads)",
           "new.row_writes & t.row_writes"),
    Mutant("writers are not waited for", "core/window.py", "(new.reads & t.writes)",
           "(new.reads & 0)"),
    Mutant("physical registers are free too early", "core/window.py",
           "leaves.eq(busy.bit_select(head, 1) & complete.bit_select(head, 1))",
           "leaves.eq(busy.bit_select(head, 1))"),
    Mutant("memory is issued out of order", "core/window.py", "present & (mine == e)",
           "present & (mine == e) & (e != Engine.MEMORY)"),
    Mutant("streams do not wait for fences", "core/window.py", "macro.streams & fences[i]", "0"),
    Mutant("a register that is kept is renamed", "core/core.py",
           "stays = Value.cast(use.keeps(o)).any() | again", "stays = again"),
    Mutant("a register that was read is renamed again", "core/core.py",
           "now = Mux(again, field, rename.physical)", "now = rename.physical"),
    Mutant("a jump keeps what was fetched", "core/program.py", "                level.eq(0),\n",
           ""),
    Mutant("instructions begin a word late behind a jump", "core/program.py",
           "offset.eq(self.target),", "offset.eq(self.target + 1),"),
    Mutant("signed values are cut", "core/core.py", "fits = fits | above.all()", "fits = fits"),
    Mutant("a match forgets its first rows", "core/registers_access.py", "mask.eq(self.value),",
           "mask.eq(0),"),
    Mutant("lw passes stores", "core/core.py", "m.If(~window.stores):", "m.If(1):"),
]  # fmt: skip

SAMPLE = 2
"""Mutants of every run."""


@pytest.mark.parametrize("mutant", params(MUTANTS, SAMPLE))
def test_the_core_tests_notice(mutant, tmp_path):
    notice("core", mutant, CONFIG, tmp_path)
