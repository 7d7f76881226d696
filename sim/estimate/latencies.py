"""Every number of the model that is not in the configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Latencies:
    """Delays, in cycles unless said otherwise.

    Attributes
    ----------
    fetch_words
        Words of the program that are read per cycle: a port of 128 bits.
    fetch_buffer
        Words that wait between program memory and decoder.
    branch
        A taken branch, until the next instruction can be decoded: program memory, and no
        prediction.
    scalar_read
        `readv`, `readr`, `match`: from the register's last write to the scalar register.
    issue
        From being ready in the window to the first operand read: select, then descriptors.
    complete
        From a register's last write to what waits for it being ready.
    read, write
        From an instruction of the vector unit being accepted to its first elements; from the last
        ones to the register. These and the following are those of the RTL (``jalapeno bench vec``).
    add, multiply
        FP32, rounded and flushed: align, add, normalise, round; multiply, normalise, round.
    compare, ldexp
        Other steps.
    exp2, reciprocal, rsqrt
        Table and polynomial.
    maximum
        Maximum over lanes, and with those before.
    sweep
        A sweep of `topk` over a row, beside a cycle per line.
    quantise
        Maximum over a block's lanes, beside gathering the block and a cycle per transfer of it.
    vector_start
        Cycles an instruction keeps the vector unit beside its passes.
    l1
        Hit: tag, data, align.
    hbm
        From a request at the client port to its beat: a closed row, RCD + CL + 2 = 53, and what
        the controller adds. Pipelined; hits and conflicts are 22 and 79.
    hbm_lost
        One cycle in so many brings nothing: refresh and rows. `hbm.sequential` is measured at
        0.997; its target, 0.98, would be 50.
    hbm_write
        Bus cycles of a write: an access of two beats.
    hbm_turnaround
        Bus cycles lost from reads to writes and back.
    hbm_writes
        Writes that wait for an idle bus before they are forced.
    accept
        From an append leaving the load/store unit to its acceptance by the controller.
    load_blocks
        From an operation being issued to its first activation block in the lanes, beside a cycle
        per row: `read`, and one to prepare and store it.
    array_fill
        From a beat's arrival to the array taking it: unpack, queue, sequencer.
    array
        From a step of the array to the accumulator: operands, dot product, shift and add.
    drain
        From an accumulator to the register's port: read, normalise, round. The RTL of the matrix
        engine takes 14 cycles beyond the beats of an operand (`array_fill`, `array`, `drain`), and
        11 beyond the steps of one that waits for its activations.
    """

    fetch_words: int = 4
    fetch_buffer: int = 64
    branch: int = 3
    scalar_read: int = 3
    issue: int = 2
    complete: int = 1
    read: int = 4
    write: int = 1
    add: int = 2
    multiply: int = 2
    compare: int = 2
    ldexp: int = 2
    exp2: int = 3
    reciprocal: int = 2
    rsqrt: int = 2
    maximum: int = 2
    sweep: int = 3
    quantise: int = 1
    vector_start: int = 1
    l1: int = 3
    hbm: int = 57
    hbm_lost: int = 300
    hbm_write: int = 2
    hbm_turnaround: int = 24
    hbm_writes: int = 32
    accept: int = 3
    load_blocks: int = 3
    array_fill: int = 5
    array: int = 4
    drain: int = 5


@dataclass(frozen=True)
class Options:
    """What can be left out of the tile to see what it is worth.

    Attributes
    ----------
    chain
        A vector instruction may begin on the first elements of what it reads, so that it ends
        right behind the last; without it, it waits until all are written.
    pair
        Spare lanes of the matrix engine take a second beat.
    prefetch
        The matrix engine streams an operand before its activations are there.
    """

    chain: bool = True
    pair: bool = True
    prefetch: bool = True
