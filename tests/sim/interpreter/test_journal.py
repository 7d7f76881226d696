"""What was overwritten can be put back."""

from __future__ import annotations

import numpy as np

from sim.interpreter.journal import Journal


def test_undo_puts_back_everything_since_it_last_forgot():
    journal = Journal()
    array, flags = np.arange(6), np.zeros(3, np.bool_)
    journal.write(array, slice(0, 2), 9)
    journal.forget()
    journal.write(array, np.array([1, 1, 5]), np.array([7, 8, 8]))
    journal.write(array, slice(0, 6), 0)
    journal.write(flags, 1, True)
    assert array.tolist() == [0] * 6
    assert flags.tolist() == [False, True, False]
    journal.undo()
    assert array.tolist() == [9, 9, 2, 3, 4, 5]
    assert not flags.any()
    journal.undo()
    assert array.tolist() == [9, 9, 2, 3, 4, 5]
