"""Several tiles: collectives, messages, remote reads, and how they wait for each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gen.mx import MXTensor
from gen.quantise import quantise
from rtl.core.fields import S
from rtl.core.isa import MESSAGES, Collective, Output, Place
from sim.golden import fp32
from sim.interpreter import Machine, Memory, ProgramError
from sim.interpreter.network import share
from tests.sim.interpreter.programs import (
    FENCE,
    FP4,
    INT8,
    SMALL,
    STOP,
    assert_same_state,
    defined,
    get_blocks,
    get_rows,
    get_words,
    op,
    set_blocks,
    set_rows,
    set_words,
    words_of,
)
from tests.sim.interpreter.test_network import awkward, ring

SIZE = 1 << 12
COUNTS = [1, 2, 3, 4, 8]
each_count = pytest.mark.parametrize("tiles", COUNTS)
NAN = 0x7FC00000


def make(tiles, config=SMALL):
    return Machine(config, [Memory(config, SIZE) for _ in range(tiles)])


def programs_of(*programs):
    return [words_of([*program, STOP]) for program in programs]


def run_alike(machine, *instructions):
    """Run the same instructions on every tile."""
    machine.run(programs_of(*[instructions] * len(machine.tiles)))
    return machine


def collective(kind, **fields):
    return op("collective", kind=Collective[kind.upper()], **fields)


# Collectives


@each_count
@pytest.mark.parametrize("count", [0, 1, 3, 8, 13, 64])
def test_all_gather_of_words(tiles, count):
    """Each tile has its share and nothing else; the whole comes to another slot, or in place."""
    machine = make(tiles)
    whole = np.random.default_rng(count).integers(0, 1 << 32, count, np.uint32)
    for tile in machine.tiles:
        own = share(count, tile.number, tiles)
        for unit in range(own.start, own.stop):
            tile.vectors.write_words(0, np.array([32 + unit]), whole[None, unit : unit + 1])
    run_alike(
        machine,
        collective("all_gather", count=count, source=0, offset=1, to=1, result_slot=3),
        collective("all_gather", count=count, source=0, offset=1, to=0, result_slot=1, into=True),
    )
    for tile in machine.tiles:
        assert get_words(tile, 1, count, offset=3).tolist() == whole.tolist()
        assert get_words(tile, 0, count, offset=1).tolist() == whole.tolist()
        assert defined(tile, 1).sum() == count


@each_count
@pytest.mark.parametrize("count", [1, 5, 16])
def test_all_gather_of_blocks(tiles, count):
    """With scales, NaN among them, and even formats that differ from tile to tile."""
    rng = np.random.default_rng(count)
    machine = make(tiles)
    blocks = []
    for unit in range(count):
        fmt = (FP4, INT8)[unit % 3 == 0]
        codes = rng.integers(0, 16, (1, 1, 32), np.uint8)
        scale = np.array([[255 if unit == 2 else rng.integers(0, 255)]], np.uint8)
        blocks.append(MXTensor(codes, scale, fmt, 32))
    for tile in machine.tiles:
        own = share(count, tile.number, tiles)
        for unit in range(own.start, own.stop):
            set_blocks(tile, 2, blocks[unit], 3 + unit)
    run_alike(
        machine,
        collective("all_gather", place=Place.BLOCKS, count=count, source=2, offset=3, to=4,
                   result_slot=1),
    )  # fmt: skip
    for tile, unit in itertools.product(machine.tiles, range(count)):
        assert get_blocks(tile, 4, blocks[unit].format, 1, 1 + unit) == blocks[unit][0]


@each_count
@pytest.mark.parametrize("count", [1, 7, 40])
def test_all_gather_in_memory(tiles, count):
    machine = make(tiles)
    whole = np.random.default_rng(count).integers(0, 1 << 32, count, np.uint32)
    for tile in machine.tiles:
        own = share(count, tile.number, tiles)
        tile.memory.poke(1024 + 4 * own.start, whole[own])
    run_alike(
        machine,
        collective("all_gather", place=Place.MEMORY, count=count, address=1000, address_offset=24,
                   result=2000, result_offset=48),
    )  # fmt: skip
    for tile in machine.tiles:
        stored = tile.memory.peek(2048, 4 * count).view(np.uint32)
        assert stored.tolist() == whole.tolist()


def test_wholes_in_memory_go_on_behind_holes():
    """With three pseudo-channels, 16 of 64 bytes are holes."""
    machine = make(2, SMALL.replace(pseudo_channels=3, stream_bytes=1024))
    whole = np.arange(40, dtype=np.uint32)
    for tile in machine.tiles:
        tile.memory.poke(64 + 32, whole)
        mine = tile.memory.bytes[tile.memory.run(64 + 32, 160)]
        mine[: 80 * tile.number] = mine[80 * (1 + tile.number) :] = 0
    gather = collective("all_gather", place=Place.MEMORY, count=40, address=96, result=1024 + 16)
    run_alike(machine, gather)
    for tile in machine.tiles:
        assert tile.memory.peek(1040, 160).view(np.uint32).tolist() == whole.tolist()


@pytest.mark.parametrize(
    ("fields", "faulty"),
    [
        ({"place": Place.MEMORY, "address": 64, "result": 80}, True),
        ({"place": Place.MEMORY, "address": 64, "result": 48}, True),
        ({"place": Place.MEMORY, "address": 64, "result": 64}, False),
        ({"place": Place.MEMORY, "address": 64, "result": 224}, False),
        ({"source": 0, "to": 0, "into": True, "offset": 1, "result_slot": 2}, True),
        ({"source": 0, "to": 0, "into": True, "offset": 1, "result_slot": 1}, False),
        ({"source": 0, "to": 0, "into": True, "offset": 0, "result_slot": 2}, False),
        ({"source": 0, "to": 0, "offset": 1, "result_slot": 2}, False),
        ({"source": 0, "to": 1, "into": True, "offset": 1, "result_slot": 2}, False),
    ],
)
def test_wholes_that_overlap(fields, faulty):
    """What is read may be written where it is, but not in part."""
    machine = make(2)
    for tile in machine.tiles:
        set_words(tile, 0, np.zeros(160))
    instruction = collective("all_reduce_maximum", count=40, **fields)
    if not faulty:
        run_alike(machine, instruction)
        return
    with pytest.raises(ProgramError) as caught:
        run_alike(machine, instruction)
    assert caught.value.cause == "The whole that is written overlaps the one that is read."


def test_of_others_shares_nothing_is_touched():
    """What a tile has appended in the others' places is none of the collective's business."""
    machine = make(2)
    for tile in machine.tiles:
        tile.memory.poke(0, np.full(16, tile.number, np.uint32))
        set_rows(tile, 0, np.array([1]))
    gather = collective("all_gather", place=Place.MEMORY, count=16, address=0, result=512)
    append = [op("appendmax", source=0, row=0, address=address) for address in (32, 0)]
    machine.run(programs_of([append[0], gather], [append[1], gather]))
    for tile in machine.tiles:
        stored = tile.memory.peek(512, 64).view(np.uint32)
        assert stored.tolist() == [0] * 8 + [1] * 8


@each_count
@pytest.mark.parametrize("place", Place)
def test_broadcast(tiles, place):
    """From every root; the others have nothing to give."""
    rng = np.random.default_rng(1)
    for root in range(tiles):
        machine = make(tiles)
        words = rng.integers(0, 1 << 32, 40, np.uint32)
        block = quantise(rng.standard_normal((1, 96)).astype(np.float32), INT8)
        set_words(machine.tiles[root], 0, words, offset=2)
        set_blocks(machine.tiles[root], 1, block, 4)
        machine.tiles[root].memory.poke(64, words)
        source, offset, count = (1, 4, 3) if place is Place.BLOCKS else (0, 2, 40)
        run_alike(
            machine,
            collective("broadcast", place=place, count=count, root=root, source=source,
                       offset=offset, to=3, result_slot=1, address=64, result=2048),
        )  # fmt: skip
        for tile in machine.tiles:
            if place is Place.WORDS:
                assert get_words(tile, 3, 40, offset=1).tolist() == words.tolist()
            elif place is Place.BLOCKS:
                assert get_blocks(tile, 3, INT8, 3, 1) == block[0]
            else:
                assert tile.memory.peek(2048, 160).view(np.uint32).tolist() == words.tolist()


def give(machine, words, place):
    for tile, row in zip(machine.tiles, words, strict=True):
        if place is Place.WORDS:
            set_words(tile, 0, row, offset=1)
        else:
            tile.memory.poke(128, row)


def got(tile, units, place):
    count = units.stop - units.start
    if place is Place.WORDS:
        start = np.array([96 + units.start])
        return tile.vectors.read_words(5, start, count)[0].tolist()
    return tile.memory.peek(2048 + 4 * units.start, 4 * count).view(np.uint32).tolist()


FIELDS = {"source": 0, "offset": 1, "to": 5, "result_slot": 3, "address": 128, "result": 2048}


@each_count
@pytest.mark.parametrize("place", [Place.WORDS, Place.MEMORY])
@pytest.mark.parametrize("count", [1, 6, 33])
def test_sums_go_around_the_ring(tiles, place, count):
    words = awkward(np.random.default_rng([tiles, count]), tiles, count)
    expected = ring(words)
    for kind in ("all_reduce_sum", "reduce_scatter_sum"):
        machine = make(tiles)
        give(machine, words, place)
        run_alike(machine, collective(kind, place=place, count=count, **FIELDS))
        for tile in machine.tiles:
            whole = kind == "all_reduce_sum"
            units = slice(0, count) if whole else share(count, tile.number, tiles)
            assert got(tile, units, place) == expected[units]
            if place is Place.WORDS:
                assert defined(tile, 5).sum() == units.stop - units.start
            else:
                written = (tile.memory.peek(2048, 4 * count) != 0xDB).any()
                assert written or units.stop == units.start


@each_count
@pytest.mark.parametrize("place", [Place.WORDS, Place.MEMORY])
def test_maxima_over_tiles(tiles, place):
    """NaN wins over everything, +0 over -0; subnormals are zeros."""
    rng = np.random.default_rng(tiles)
    words = rng.choice(
        np.array([0, 0x80000000, 0x80000001, 0x3F800000, 0xBF800000, 0xFF800000], np.uint32),
        (tiles, 40),
    )
    words[rng.random(words.shape) < 0.03] = 0xFFC12345
    for kind in ("all_reduce_maximum", "reduce_scatter_maximum"):
        machine = make(tiles)
        give(machine, words, place)
        run_alike(machine, collective(kind, place=place, count=40, **FIELDS))
        expected = []
        for column in words.T:
            flushed = [int(w) if w & 0x7F800000 else int(w) & 0x80000000 for w in column]
            keys = [w if w < 0x80000000 else -(w - 0x80000000) - 1 for w in flushed]
            nan = any(w & 0x7FFFFFFF > 0x7F800000 for w in flushed)
            expected.append(NAN if nan else flushed[keys.index(max(keys))])
        for tile in machine.tiles:
            whole = kind == "all_reduce_maximum"
            units = slice(0, 40) if whole else share(40, tile.number, tiles)
            assert got(tile, units, place) == expected[units]


@each_count
def test_the_rest_of_a_destination_stays_or_goes(tiles):
    for into in (False, True):
        machine = make(tiles)
        for tile in machine.tiles:
            set_words(tile, 0, np.zeros(20))
            set_words(tile, 5, np.full(64, 7))
        scatter = collective("reduce_scatter_sum", count=20, source=0, to=5, into=into)
        run_alike(machine, scatter)
        for tile in machine.tiles:
            own = share(20, tile.number, tiles)
            assert defined(tile, 5).sum() == (64 if into else own.stop - own.start)


@each_count
def test_a_barrier_moves_nothing(tiles):
    machine, twin = make(tiles), make(tiles)
    run_alike(machine, collective("barrier"))
    run_alike(twin, op("add", to=S(0), a=S(0), b=0))
    for one, other in zip(machine.tiles, twin.tiles, strict=True):
        other.pc = one.pc
        assert_same_state(one, other)


def test_nobody_passes_a_barrier_before_all_are_there():
    machine = make(3)
    store = [op("add", to=S(1), a=S(0), b=7), op("sw", value=S(1), address=0), FENCE]
    look = [collective("barrier"), op("remote", tile=2, address=0, count=1, to=0)]
    machine.run(programs_of(look, look, [*store, *look]))
    for tile in machine.tiles:
        assert get_words(tile, 0, 1) == 7


def test_collectives_are_matched_by_order():
    machine = make(2)
    for tile in machine.tiles:
        set_words(tile, 0, np.arange(4) + 10 * tile.number)
    first = collective("broadcast", count=4, root=0, source=0, to=1)
    second = collective("broadcast", count=4, root=1, source=0, to=2)
    run_alike(machine, first, second, collective("barrier"))
    for tile in machine.tiles:
        assert get_words(tile, 1, 4).tolist() == [0, 1, 2, 3]
        assert get_words(tile, 2, 4).tolist() == [10, 11, 12, 13]


# Collectives that do not fit together


def errors_of_all(machine, programs):
    """Step every tile to its end, and return what each of them complains of."""
    steps = [
        tile.execute(words)
        for tile, words in zip(machine.tiles, programs_of(*programs), strict=True)
    ]
    errors = {}
    while len(errors) < len(steps):
        for number, step in enumerate(steps):
            if number not in errors:
                try:
                    next(step)
                except StopIteration:
                    errors[number] = None
                except ProgramError as error:
                    errors[number] = error
    return [errors[number] for number in range(len(steps))]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"count": 9}, "count is 8 on tile 0 and 9 on tile 2"),
        ({"root": 2}, "root is 1 on tile 0 and 2 on tile 2"),
        ({"place": Place.MEMORY}, "place is words on tile 0 and memory on tile 2"),
        ({"kind": Collective.BARRIER}, "kind is broadcast on tile 0 and barrier on tile 2"),
    ],
)
def test_a_mismatch_is_an_error_of_all(fields, sentence):
    machine, twin = make(3), make(3)
    for tile in (*machine.tiles, *twin.tiles):
        set_words(tile, 0, np.zeros(64))
    good = {"kind": Collective.BROADCAST, "count": 8, "root": 1, "source": 0, "to": 1}
    programs = [[op("collective", **good)]] * 2 + [[op("collective", **{**good, **fields})]]
    for number, error in enumerate(errors_of_all(machine, programs)):
        assert error.cause == f"The collective's {sentence}."
        assert (error.tile, error.pc) == (number, 0)
        assert error.instruction == str(programs[number][0])
        assert_same_state(machine.tiles[number], twin.tiles[number])
    with pytest.raises(ProgramError, match=sentence):
        machine.run(programs_of(*programs))


def test_a_root_that_there_is_not():
    machine = make(2)
    programs = [[collective("broadcast", count=1, root=2, source=0, to=1)]] * 2
    for error in errors_of_all(machine, programs):
        assert error.cause == "root is 2, there are tiles 0 to 1."


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"kind": Collective.ALL_REDUCE_SUM, "place": Place.BLOCKS},
         "place is blocks, all_reduce_sum takes words."),
        ({"kind": Collective.ALL_GATHER, "count": 4}, "v0 is undefined at slot 0, word 2, where "
         "words are read."),
        ({"kind": Collective.ALL_GATHER, "count": 2, "place": Place.BLOCKS},
         "v0 has no MX block 1."),
        ({"kind": Collective.ALL_REDUCE_SUM, "count": 4}, "v0 is undefined at slot 0, word 0, "
         "where words are read."),
        ({"kind": Collective.ALL_GATHER, "count": 1000}, "v0 has 256 words, 500 from word 500 are "
         "wanted."),
        ({"kind": Collective.ALL_GATHER, "place": Place.MEMORY, "count": 4, "address": 2},
         "Address 0x2 is no multiple of 16."),
        ({"kind": Collective.ALL_GATHER, "place": Place.MEMORY, "count": 8, "address": SIZE - 16},
         "16 bytes from address 0x1000 are not all in memory, which ends at 0x1000."),
    ],
)  # fmt: skip
def test_a_tile_that_has_nothing_to_give(fields, cause):
    machine, twin = make(2), make(2)
    with pytest.raises(ProgramError) as caught:
        machine.run(programs_of([collective("barrier")], [op("collective", **fields)]))
    assert (caught.value.cause, caught.value.tile) == (cause, 1)
    twin.tiles[1].memory.start()
    assert_same_state(machine.tiles[1], twin.tiles[1])


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"result_slot": 7, "to": 0}, "v0 has 256 words, 40 from word 224 are wanted."),
        ({"place": Place.MEMORY, "address": 512, "result": SIZE - 80}, "160 bytes from address "
         "0xfb0 are not all in memory, which ends at 0x1000."),
    ],
)  # fmt: skip
def test_a_tile_that_has_no_room(fields, cause):
    machine, twin = make(2), make(2)
    for tile in (*machine.tiles, *twin.tiles):
        set_words(tile, 0, np.zeros(64))
    with pytest.raises(ProgramError) as caught:
        run_alike(machine, collective("all_gather", count=40, source=0, **fields))
    assert caught.value.cause == cause
    number = caught.value.tile
    np.testing.assert_array_equal(
        machine.tiles[number].vectors.kinds, twin.tiles[number].vectors.kinds
    )
    np.testing.assert_array_equal(
        machine.tiles[number].memory.bytes, twin.tiles[number].memory.bytes
    )


# Messages


def send(tile, tag, register, count, **fields):
    return op("send", tile=tile, tag=tag, source=register, count=count, **fields)


def receive(register, count, tile=None, tag=None, **fields):
    return op(
        "receive", any_tile=tile is None, tile=tile or 0, any_tag=tag is None, tag=tag or 0,
        to=register, count=count, **fields,
    )  # fmt: skip


@each_count
def test_messages_by_tag_in_any_order(tiles):
    """Every tile sends three to the next one, which takes them the other way around."""
    machine = make(tiles)
    programs = []
    for tile in machine.tiles:
        following, before = (tile.number + 1) % tiles, (tile.number - 1) % tiles
        for tag in range(3):
            set_words(tile, tag, np.full(20, 100 * tile.number + tag), offset=1)
        programs.append(
            [send(following, tag, tag, 20, offset=1) for tag in range(3)]
            + [receive(10 + tag, 20, before, tag, offset=2) for tag in (2, 0, 1)]
        )
    machine.run(programs_of(*programs))
    for tile, tag in itertools.product(machine.tiles, range(3)):
        before = (tile.number - 1) % tiles
        assert get_words(tile, 10 + tag, 20, offset=2).tolist() == [100 * before + tag] * 20
        assert defined(tile, 10 + tag).sum() == 20
        assert not tile.rows.defined.any()  # nobody asked for an envelope


def test_messages_between_two_tiles_arrive_in_order():
    machine = make(2)
    for i in range(5):
        set_words(machine.tiles[0], i, np.array([i]))
    machine.run(
        programs_of(
            [send(1, 0, i, 1) for i in range(5)],
            [receive(i, 1, tile=0, tag=(0, None)[i % 2]) for i in range(5)],
        )
    )
    assert [int(get_words(machine.tiles[1], i, 1)[0]) for i in range(5)] == [0, 1, 2, 3, 4]


def test_the_envelope_says_who_and_what():
    machine = make(3)
    for tile in machine.tiles:
        set_words(tile, 0, np.array([tile.number]))
    take = [receive(1 + i, 1, envelope=i) for i in range(2)]
    machine.run(programs_of(take, [send(0, 7, 0, 1)], [send(0, 9, 0, 1)]))
    tile = machine.tiles[0]
    envelopes = sorted(get_rows(tile, i, 2).tolist() for i in range(2))
    assert envelopes == [[1, 7], [2, 9]]
    for i in range(2):
        assert get_words(tile, 1 + i, 1) == get_rows(tile, i, 1)


def test_from_one_tile_with_any_tag():
    machine = make(3)
    for tile in machine.tiles:
        set_words(tile, 0, np.array([tile.number]))
    take = [receive(1, 1, tile=2, envelope=4), receive(2, 1, tag=7, envelope=5)]
    machine.run(programs_of(take, [send(0, 7, 0, 1)], [send(0, 9, 0, 1)]))
    assert get_rows(machine.tiles[0], 4, 2).tolist() == [2, 9]
    assert get_rows(machine.tiles[0], 5, 2).tolist() == [1, 7]


@each_count
def test_a_message_to_oneself(tiles):
    machine = make(tiles)
    block = quantise(np.float32([[1, 2, 3]]), FP4)
    programs = []
    for tile in machine.tiles:
        set_blocks(tile, 0, block, 2)
        fields = {"place": Place.BLOCKS, "count": 1}
        me = tile.number
        programs.append(
            [
                op("send", tile=me, tag=5, source=0, offset=2, **fields),
                op("vector", a=0, rows=0, columns=1, output=Output.WORDS, to=0),  # v0 is gone
                op("receive", tile=me, tag=5, to=1, offset=6, **fields),
            ]
        )
    machine.run(programs_of(*programs))
    for tile in machine.tiles:
        assert get_blocks(tile, 1, FP4, 1, 6).codes.tolist() == block.codes[0].tolist()
        assert get_blocks(tile, 1, FP4, 1, 6).scales.tolist() == block.scales[0].tolist()


def test_a_send_waits_when_too_many_messages_were_not_taken():
    """Whoever they are for; it goes on with the register as it was, once one of them is taken."""
    machine = make(3)
    for tile in machine.tiles:
        set_words(tile, 0, np.array([tile.number]))
    first = [send(i % 2 + 1, i, 0, 1) for i in range(MESSAGES)]
    steps = [
        tile.execute(program)
        for tile, program in zip(
            machine.tiles,
            programs_of(
                [*first, send(1, 100, 0, 1)],
                [send(0, 0, 0, 1), *(receive(i, 1, 0, i) for i in range(0, MESSAGES, 2)),
                 receive(20, 1, 0, 100)],
                [*(receive(i, 1, 0, i) for i in range(1, MESSAGES, 2))],
            ),
            strict=True,
        )
    ]  # fmt: skip
    machine.network.start()
    for _ in range(2):
        assert next(steps[0], None) == "one of its messages to be taken"
    assert sum(map(len, machine.network.inboxes)) == MESSAGES
    assert next(steps[1], None) == "a message from tile 0 with tag 100"  # others can send
    assert next(steps[0], None) is None
    assert next(steps[1], None) is next(steps[2], None) is None
    assert get_words(machine.tiles[1], 20, 1) == 0


def test_tiles_that_send_too_much_to_each_other_wait_for_ever():
    """One message less, and they do not."""
    for beyond in (0, 1):
        count = MESSAGES + beyond
        machine = make(2)
        for tile in machine.tiles:
            set_words(tile, 0, np.array([tile.number]))
        programs = programs_of(
            *(
                [send(1 - me, i, 0, 1) for i in range(count)]
                + [receive(1, 1, 1 - me, i) for i in range(count)]
                for me in range(2)
            )
        )
        if not beyond:
            machine.run(programs)
            continue
        with pytest.raises(ProgramError) as caught:
            machine.run(programs)
        assert caught.value.cause == (
            "All tiles that run wait: tile 0 for one of its messages to be taken; tile 1 for one "
            "of its messages to be taken."
        )


def test_every_message_must_be_taken():
    machine = make(2)
    set_words(machine.tiles[0], 0, np.array([3]))
    programs = programs_of([send(1, 4, 0, 1), send(1, 5, 0, 1)], [receive(0, 1, 0, 4)])
    with pytest.raises(ProgramError) as caught:
        machine.run(programs)
    assert caught.value.cause == "The message from tile 0 with tag 5 was not taken."
    assert caught.value.tile == 1


def test_a_message_of_nothing():
    machine = make(2)
    machine.run(programs_of([send(1, 1, 0, 0)], [receive(0, 0, tile=0, tag=1)]))
    assert not defined(machine.tiles[1], 0).any()


@pytest.mark.parametrize(
    ("sent", "taken", "cause"),
    [
        ({"count": 3}, {"count": 4},
         "The message from tile 0 has 3 words, 4 words are wanted."),
        ({"count": 1}, {"count": 1, "place": Place.BLOCKS},
         "The message from tile 0 has 1 words, 1 blocks are wanted."),
        ({"count": 1}, {"count": 1, "place": Place.MEMORY},
         "place is memory, messages hold words or blocks."),
        ({"count": 9}, {"count": 9, "offset": 8},
         "v1 has 256 words, 9 from word 256 are wanted."),
        ({"count": 1}, {"count": 1, "tile": 2, "any_tile": False},
         "tile is 2, there are tiles 0 to 1."),
    ],
)  # fmt: skip
def test_a_message_that_does_not_fit_is_not_taken(sent, taken, cause):
    machine = make(2)
    set_words(machine.tiles[0], 0, np.zeros(64))
    set_words(machine.tiles[1], 1, np.zeros(64))
    fields = {"any_tile": True, "any_tag": True, "to": 1, "envelope": 3, **taken}
    programs = programs_of(
        [op("send", tile=1, source=0, **sent), collective("barrier")],
        [collective("barrier"), op("receive", **fields)],
    )
    with pytest.raises(ProgramError) as caught:
        machine.run(programs)
    assert (caught.value.cause, caught.value.tile) == (cause, 1)
    tile = machine.tiles[1]
    assert len(machine.network.inboxes[1]) == 1
    assert defined(tile, 1).sum() == 64
    assert not tile.rows.defined.any()


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"tile": 2}, "tile is 2, there are tiles 0 to 1."),
        ({"place": Place.MEMORY}, "place is memory, messages hold words or blocks."),
        ({"place": Place.BLOCKS}, "v0 has no MX block 0."),
        ({"count": 65}, "v0 is undefined at slot 2, word 0, where words are read."),
        ({"offset": 8}, "v0 has 256 words, 1 from word 256 are wanted."),
    ],
)
def test_messages_that_cannot_be_sent(fields, cause):
    machine = make(2)
    set_words(machine.tiles[0], 0, np.zeros(64))
    message = op("send", **{"tile": 1, "count": 1, "source": 0, **fields})
    with pytest.raises(ProgramError) as caught:
        machine.run(programs_of([message], []))
    assert caught.value.cause == cause
    assert not machine.network.inboxes[1]


# Remote reads


def test_reading_another_tiles_memory():
    """What it stored before its fence, once there was word of it."""
    machine = make(2)
    set_words(machine.tiles[1], 0, np.arange(40) + 5)
    machine.run(
        programs_of(
            [
                receive(1, 0, tile=1, tag=0),
                op("remote", tile=1, address=64, address_offset=36, count=20, to=2, offset=1),
                op("remote", tile=0, address=100, count=2, to=3),
            ],
            [op("store", source=0, rows=1, columns=40, address=96), FENCE, send(0, 0, 0, 0)],
        )
    )
    tile = machine.tiles[0]
    assert get_words(tile, 2, 20, offset=1).tolist() == [*range(6, 26)]
    assert get_words(tile, 3, 2).tolist() == [0xDBDBDBDB] * 2
    assert defined(tile, 2).sum() == 20


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"tile": 2}, "tile is 2, there are tiles 0 to 1."),
        ({"address": 2}, "Address 0x2 is no multiple of 4."),
        ({"address": SIZE}, "4 bytes from address 0x1000 are not all in memory, which ends at "
         "0x1000."),
        ({"offset": 8}, "v1 has 256 words, 1 from word 256 are wanted."),
        ({"address": 96}, "The program reads through L1 what was written past it, in the line at "
         "0x60."),
    ],
)  # fmt: skip
def test_faults_of_remote_reads(fields, cause):
    machine = make(2)
    set_rows(machine.tiles[1], 0, np.array([1]))
    set_words(machine.tiles[0], 1, np.zeros(9))
    read = op("remote", **{"tile": 1, "address": 0, "count": 1, "to": 1, **fields})
    append = op("appendmax", source=0, row=0, address=100)
    barrier = collective("barrier")
    with pytest.raises(ProgramError) as caught:
        machine.run(programs_of([barrier, read], [append, FENCE, barrier]))
    assert (caught.value.cause, caught.value.tile) == (cause, 0)
    assert defined(machine.tiles[0], 1).sum() == 9


# Waiting


def test_a_deadlock_is_reported_with_what_everybody_waits_for():
    machine = make(4)
    set_words(machine.tiles[0], 0, np.zeros(1))
    programs = programs_of(
        [send(1, 4, 0, 1), receive(1, 1, tile=1, tag=3)],
        [receive(1, 1, tile=0), receive(2, 1, tag=8)],
        [collective("barrier")],
        [],
    )
    with pytest.raises(ProgramError) as caught:
        machine.run(programs)
    error = caught.value
    assert error.cause == (
        "All tiles that run wait: tile 0 for a message from tile 1 with tag 3; tile 1 for a "
        "message from any tile with tag 8; tile 2 for the others in barrier."
    )
    assert (error.tile, error.pc, error.instruction) == (0, 3, "")


def test_receiving_from_oneself_what_was_never_sent():
    with pytest.raises(ProgramError, match=r"All tiles that run wait: tile 0 for a message from"):
        make(1).run(programs_of([receive(0, 1)]))


def test_a_program_that_does_not_end_on_one_tile():
    machine = make(2)
    with pytest.raises(ProgramError) as caught:
        machine.run(programs_of([], [op("beq", a=S(0), b=0, target=0)]), limit=50)
    assert caught.value.cause == "The program does not end within 50 instructions."
    assert caught.value.tile == 1


def test_a_machine_needs_a_program_for_every_tile():
    with pytest.raises(ValueError, match=r"zip"):
        make(2).run(programs_of([]))


def test_after_a_fault_a_machine_can_run_again():
    """Nobody is still in the barrier of the program that failed, and no message is left."""
    machine = make(2)
    set_words(machine.tiles[0], 0, np.array([3]))
    with pytest.raises(ProgramError):
        machine.run(
            programs_of([send(1, 0, 0, 1), collective("barrier")], [op("lw", to=S(1), address=1)])
        )
    stores = [op("add", to=S(1), a=S(0), b=7), op("sw", value=S(1), address=0), FENCE]
    look = [collective("barrier"), op("remote", tile=1, address=0, count=1, to=1)]
    machine.run(programs_of(look, [*stores, *look]))
    assert get_words(machine.tiles[0], 1, 1) == 7
    assert not machine.network.inboxes[1]


# The order in which tiles are stepped


def run_shuffled(machine, programs, rng):
    """Run programs, always going on with a random tile that can."""
    machine.network.start()
    steps = {t.number: t.execute(p) for t, p in zip(machine.tiles, programs, strict=True)}
    while steps:
        number = int(rng.choice(list(steps)))
        try:
            next(steps[number])
        except StopIteration:
            del steps[number]


def everything(machine, rng):
    """Programs that use all ways to meet, without a race: messages, collectives, remote reads."""
    tiles = len(machine.tiles)
    programs = []
    for tile in machine.tiles:
        me = tile.number
        for register in range(4):
            set_words(tile, register, awkward(rng, 1, 64)[0])
        program = [op("store", source=0, rows=1, columns=64, address=256), FENCE]
        # Each tile tells all others how far it is, then reads what they stored.
        program += [send(other, 1, 1, 10) for other in range(tiles)]
        for other in range(tiles):
            program += [
                receive(4, 10, tile=other, tag=1),
                op("remote", tile=other, address=256 + 4 * me, count=40, to=5),
                op("vector", a=4, rows=1, columns=10, b_step=1, b_operand=4, b=5,
                   output=Output.WORDS, to=4),
                send((me + other) % tiles, 2 + other, 4, 10),
            ]  # fmt: skip
        program.append(collective("all_reduce_sum", count=50, source=2, to=6))
        for other in range(tiles):
            source = (me - other) % tiles
            program += [
                receive(8 + other, 10, tile=source, tag=2 + other),
                collective("reduce_scatter_sum", count=10, source=8 + other, to=7, into=other > 0,
                           result_slot=other % 8),
            ]  # fmt: skip
        program += [
            collective("all_gather", count=64, source=3, to=3),
            collective("broadcast", count=50, root=tiles - 1, source=6, to=20),
        ]
        programs.append(program)
    return programs_of(*programs)


@pytest.mark.parametrize("tiles", [1, 2, 3, 4, 8])
def test_the_order_of_steps_does_not_matter(tiles):
    reference = make(tiles)
    reference.run(everything(reference, np.random.default_rng(tiles)))
    for seed in range(6):
        machine = make(tiles)
        programs = everything(machine, np.random.default_rng(tiles))
        run_shuffled(machine, programs, np.random.default_rng(seed))
        for one, other in zip(machine.tiles, reference.tiles, strict=True):
            assert_same_state(one, other)


def test_only_a_receive_from_any_tile_may_see_the_order():
    """Which is why programs that want the same bits every time must not care who it was."""
    seen = set()
    for seed in range(20):
        machine = make(3)
        for tile in machine.tiles:
            set_words(tile, 0, np.array([tile.number]))
        take = [receive(1, 1), receive(2, 1)]
        programs = programs_of(take, [send(0, 0, 0, 1)], [send(0, 0, 0, 1)])
        run_shuffled(machine, programs, np.random.default_rng(seed))
        seen.add(tuple(int(get_words(machine.tiles[0], r, 1)[0]) for r in (1, 2)))
    assert seen == {(1, 2), (2, 1)}


def test_a_start_is_the_same_for_all():
    """A tile that reads another's memory before that one has begun leaves its mark in its L1."""
    machine = make(2)
    set_rows(machine.tiles[1], 0, np.array([1]))
    look = op("remote", tile=1, address=0, count=1, to=0)
    append = op("appendmax", source=0, row=0, address=0)
    for order in ((0, 1), (1, 0)):
        machine.network.start()
        programs = programs_of([look], [append])
        steps = [t.execute(p) for t, p in zip(machine.tiles, programs, strict=True)]
        next(steps[order[0]], None)
        with pytest.raises(ProgramError, match=r"L1"):
            next(steps[order[1]], None)


def test_sums_of_floats_depend_on_the_number_of_tiles():
    """The reason why no model's numbers are summed over tiles."""
    rng = np.random.default_rng(3)
    values = (rng.standard_normal((8, 64)) * 1e4).astype(np.float32)
    results = []
    for tiles in (2, 4, 8):
        machine = make(tiles)
        for tile in machine.tiles:
            part = np.zeros(64, np.float32)
            for row in values[tile.number * 8 // tiles : (tile.number + 1) * 8 // tiles]:
                part = fp32.add(part, row)
            set_words(tile, 0, part)
        run_alike(machine, collective("all_reduce_sum", count=64, source=0, to=1))
        results.append(get_words(machine.tiles[0], 1, 64).tolist())
    assert results[0] != results[1] != results[2]
