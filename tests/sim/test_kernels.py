"""Programs against the golden layers, bit for bit: logits, residual stream, KV cache."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from gen.kernels.program import build
from gen.memory_map import DoesNotFit
from gen.models.model import Pairing, RouterKind
from gen.models.precision import Precision
from gen.mx import MXTensor
from rtl.config import PRESETS
from rtl.core.fields import S
from rtl.core.isa import OPCODES
from rtl.formats import Format, ScaleRule
from sim.golden import moe
from sim.golden.transformer import Cache, forward
from sim.interpreter import ProgramError
from sim.session import Session
from tests.sim.cases import BASE, NANO, SMALL, Shape, bits, run_and_compare, tokens_for
from tests.sim.golden import models

CEIL = Precision(Format.MXINT8, ScaleRule.CEIL)

CONFIGURATIONS = {
    "nano": NANO,
    "small": SMALL,
    "base": BASE,
    "columns": SMALL.replace(pseudo_channels=4, acc_depth=8, lanes=8),
    "shallow": SMALL.replace(acc_depth=1, stream_bytes=0),
    "chained": SMALL.replace(act_blocks=2, vector_bytes=16384),
    "wide window": SMALL.replace(acc_bits=52),
}


@pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("formats", ["mixed", "mxint8", "mxfp4"])
def test_a_model_of_everything_on_any_tile(config, formats):
    shape = Shape(
        layers=2, windows=(9, None), sinks=True, bias=True, clamped=True, experts=5, top_k=2,
        context=48, formats=formats,
    )  # fmt: skip
    model = shape.model(1)
    run_and_compare(model, config, tokens_for(model, 21), [13, 1, 7])


@pytest.mark.parametrize("heads", [(3, 1), (4, 2), (8, 8), (12, 4), (28, 4), (1, 1)])
@pytest.mark.parametrize("head", [8, 32, 64])
def test_heads(heads, head):
    model = Shape(heads=heads, head=head, context=40).model(2)
    run_and_compare(model, SMALL, tokens_for(model, 9), [8, 1])


@pytest.mark.parametrize("head", [2, 30, 40, 96])
@pytest.mark.parametrize("pairing", Pairing)
def test_odd_heads(head, pairing):
    model = Shape(head=head, pairing=pairing, bias=True, context=40).model(3)
    run_and_compare(model, BASE, tokens_for(model, 9))


@pytest.mark.parametrize(
    ("context", "window"),
    [
        *((context, None) for context in (1, 31, 32, 33, 127, 128, 129)),
        *((context, window) for context in (33, 129) for window in (7, 32, 40)),
    ],
)
def test_contexts_and_windows(context, window):
    """Windows shorter and longer than a block; also the bug that shows only beyond 128 tokens."""
    model = Shape(windows=(window,), context=160).model(4)
    run_and_compare(model, NANO, tokens_for(model, context), None)


@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("head", [8, 64])
def test_scores_beyond_the_registers_go_through_memory(head, window):
    """Three stretches, so that there is a first, a middle and a last."""
    shape = Shape(heads=(2, 1), head=head, windows=(window,), sinks=True, context=160)
    model = shape.model(5)
    config = (BASE if head == 64 else NANO).replace(vector_bytes=16384 if head == 64 else 8192)
    session = run_and_compare(model, config, tokens_for(model, 150), [147, 1, 2])
    assert session.stored.runs[0].layer.attention.heads.positions == 64


@pytest.mark.parametrize(
    ("channels", "depth", "formats"),
    [(2, 16, "mixed"), (4, 8, "mixed"), (8, 4, "mxint8"), (32, 1, "mxfp4")],
)
@pytest.mark.parametrize("window", [None, 40])
def test_stretches_begin_at_even_beats_where_groups_are_odd(channels, depth, formats, window):
    """32 keys take 17 or 33 beats here (or 32 values one), and a stretch starts behind them."""
    shape = Shape(heads=(2, 1), windows=(window,), context=128, formats=formats)
    model = shape.model(22)
    config = SMALL.replace(
        pseudo_channels=channels,
        acc_depth=depth,
        vector_bytes=8192,
        stream_bytes=0,
    )
    session = run_and_compare(model, config, tokens_for(model, 100), [97, 2, 1])
    heads = session.stored.runs[0].layer.attention.heads
    assert (heads.step, heads.positions) == (64, 64)


def test_memory_and_registers_give_the_same_bits():
    """The same context on a tile with long registers and on one with short ones."""
    model = Shape(context=96).model(6)
    tokens = tokens_for(model, 90)
    results = [
        Session(build(model, config, logits=True)).append(tokens)
        for config in (NANO.replace(vector_bytes=8192), NANO)
    ]
    np.testing.assert_array_equal(*map(bits, results))


@pytest.mark.parametrize(
    ("experts", "top_k"), [(1, 1), (4, 1), (4, 2), (4, 4), (32, 3), (32, 32), (40, 2)]
)
@pytest.mark.parametrize("kind", RouterKind)
def test_routers(experts, top_k, kind):
    shape = Shape(experts=experts, top_k=top_k, kind=kind, hidden=40, bias=experts < 32)
    model = shape.model(7)
    run_and_compare(model, SMALL, tokens_for(model, 6), [5, 1])


@pytest.mark.parametrize(
    ("experts", "top_k", "groups"),
    [(8, 3, (4, 2)), (8, 4, (2, 1)), (8, 2, (8, 3)), (64, 4, (2, 1)), (8, 8, (4, 4))],
)
def test_grouped_routers(experts, top_k, groups):
    shape = Shape(
        experts=experts, top_k=top_k, kind=RouterKind.SIGMOID, groups=groups, shared=True, hidden=33
    )
    model = shape.model(8)
    run_and_compare(model, BASE, tokens_for(model, 7), [6, 1])


@pytest.mark.parametrize("count", [1, 3, 9, 33])
def test_tokens_of_a_mixture(count):
    """The counts that broke another compiler's routing (tt-metal 50669)."""
    model = Shape(experts=8, top_k=2, shared=True).model(9)
    run_and_compare(model, BASE, tokens_for(model, count))


def routed_to(model, experts):
    """Return the model with a router that sends all tokens to the first experts."""
    layer = model.layers[0]
    router = layer.feed_forward.router
    count = router.linear.shape[0]
    bias = np.where(np.arange(count) < experts, 100, -100).astype(np.float32)
    linear = replace(router.linear, bias=bias)
    network = replace(layer.feed_forward, router=replace(router, linear=linear))
    return replace(model, layers=(replace(layer, feed_forward=network),))


@pytest.mark.parametrize("top_k", [1, 2])
def test_all_tokens_to_one_expert_and_none_to_others(top_k, monkeypatch):
    model = routed_to(Shape(experts=6, top_k=top_k).model(10), top_k)
    tokens = tokens_for(model, 12)
    chosen = []

    def note(router, logits, choose=moe.choose):
        result = choose(router, logits)
        chosen.append(result[0])
        return result

    monkeypatch.setattr(moe, "choose", note)
    run_and_compare(model, BASE, tokens)
    assert set(chosen[0].reshape(-1)) == set(range(top_k))


def test_an_expert_that_several_tokens_want_is_streamed_once():
    """What the row masks are for; slots and tokens must not matter."""
    model = routed_to(Shape(experts=6, top_k=2).model(10), 2)
    session = Session(build(model, BASE, logits=False, chunks=1))
    session.append(tokens_for(model, 4))
    together = session.tile.executed["matrix"]
    session = Session(build(model, BASE, logits=False, chunks=1))
    session.append(tokens_for(model, 1))
    # Four tokens are two passes for each of two KV heads, and a pass is two instructions.
    assert together == session.tile.executed["matrix"] + 4


@pytest.mark.parametrize("window", [1 << 19, 1 << 21, 1 << 40])
def test_windows_of_any_size(window):
    model = Shape(windows=(window, 3), layers=2).model(11)
    run_and_compare(model, BASE, tokens_for(model, 9))


def test_rows_that_see_nothing_are_zero():
    """A window of nothing masks every position of every row (burn 4694, iree 24175)."""
    for sinks in (False, True):
        model = Shape(windows=(0,), sinks=sinks).model(11)
        session = run_and_compare(model, BASE, tokens_for(model, 9))
        assert np.isfinite(session.last_logits).all()


def spoiled(model, what):
    """Return the model with a NaN block in one of its matrices."""
    layer = model.layers[0]

    def spoil(linear):
        scales = linear.weights.scales.copy()
        scales[1, 0] = 255
        codes = linear.weights.codes.copy()
        codes[1, 0] = 0
        weights = MXTensor(codes, scales, linear.weights.format, linear.weights.length)
        return replace(linear, weights=weights)

    if what in ("query", "key", "value", "output"):
        part = replace(layer.attention, **{what: spoil(getattr(layer.attention, what))})
        layer = replace(layer, attention=part)
    else:
        network = layer.feed_forward
        if what == "router":
            router = replace(network.router, linear=spoil(network.router.linear))
            network = replace(network, router=router)
        else:
            first, *others = network.experts
            first = replace(first, **{what: spoil(getattr(first, what))})
            network = replace(network, experts=(first, *others))
        layer = replace(layer, feed_forward=network)
    return replace(model, layers=(layer, *model.layers[1:]))


@pytest.mark.parametrize(
    "what", ["query", "key", "value", "output", "router", "gate", "up", "down"]
)
def test_nan_in_a_weight(what):
    model = spoiled(Shape(experts=3, top_k=2, layers=2, bias=True).model(12), what)
    session = run_and_compare(model, SMALL, tokens_for(model, 8), [7, 1])
    if what != "router":  # a NaN logit is below all others and chooses no expert
        assert np.isnan(session.last_logits).any() or what in ("gate", "up", "down")


def test_wide_streams_and_long_rows_take_several_registers():
    """Width and hidden of 10 and 20 registers' columns; K in chunks."""
    model = Shape(width=320, hidden=650, layers=1, bias=True, context=32).model(13)
    config = NANO.replace(act_blocks=3)
    session = run_and_compare(model, config, tokens_for(model, 5))
    assert len(session.stored.plan.parts(320)) == 4
    assert len(session.stored.plan.block_parts(21, 1)) > 3


def changed(model, part, **changes):
    """Return the model with other numbers in the attention or the router of its last layer."""
    *others, layer = model.layers
    if part == "attention":
        layer = replace(layer, attention=replace(layer.attention, **changes))
    else:
        network = layer.feed_forward
        network = replace(network, router=replace(network.router, **changes))
        layer = replace(layer, feed_forward=network)
    return replace(model, layers=(*others, layer))


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ("attention", {"scale": np.float32(0.01)}),
        ("attention", {"queries": CEIL}),
        ("attention", {"keys": CEIL}),
        ("attention", {"values": CEIL}),
        ("attention", {"probabilities": CEIL}),
        ("router", {"top_k": 1}),
        ("router", {"scale": np.float32(1)}),
        ("router", {"groups": 2, "top_groups": 1}),
    ],
)
def test_layers_that_differ_in_a_number(part, changes):
    """Their operands are stored alike, and yet they are no turns of one loop."""
    shape = Shape(layers=3, experts=4, top_k=2, kind=RouterKind.SIGMOID, groups=(4, 2))
    model = changed(shape.model(23), part, **changes)
    session = run_and_compare(model, BASE, tokens_for(model, 12), [11, 1])
    assert [run.count for run in session.stored.runs] == [2, 1]


def test_layers_that_differ_in_heads():
    """Two layers have caches of different sizes, and keys beyond the other's values."""
    model = models.quantised("mixtral")
    assert [layer.attention.kv_heads for layer in model.layers] == [1, 3]
    run_and_compare(model, BASE, tokens_for(model, 20), [13, 7])


@pytest.mark.parametrize("family", ["gptoss", "llama", "deepseek"])
def test_every_family(family):
    model = models.quantised(family)
    run_and_compare(model, SMALL, tokens_for(model, 20), [13, 7])


def test_models_without_layers():
    """What does not fit is found without them as well: four rows of registers of 64 words."""
    model = Shape(layers=0, context=8).model(24)
    config = BASE.replace(vector_bytes=8192)
    session = run_and_compare(model, config, tokens_for(model, 5))
    assert session.stored.plan.tokens == 2


def test_the_longest_registers():
    """Their slots are more than the fields of instructions can count."""
    model = Shape(layers=1, experts=3, top_k=2, context=40).model(25)
    config = BASE.replace(vector_bytes=1 << 22, act_blocks=4096)
    run_and_compare(model, config, tokens_for(model, 9), [8, 1])


def test_streams_that_are_too_wide_are_refused():
    model = Shape(width=1600, layers=1, context=32).model(13)
    with pytest.raises(
        DoesNotFit, match=r"24 vector registers .* longer registers than .* 64 words"
    ):
        build(model, NANO.replace(vector_bytes=8192))


def test_embeddings_of_every_format():
    for text in ("mxfp4", "mxint8", "fp32"):
        formats = Shape().model(14, formats=False)
        from gen.models.formats import ModelFormats
        from gen.models.quantised import quantise_model

        model = quantise_model(formats, ModelFormats.from_dict({"embedding": text}))
        run_and_compare(model, NANO, tokens_for(model, 5))
        wide = Shape(width=320, layers=0).model(14, formats=False)
        model = quantise_model(wide, ModelFormats.from_dict({"embedding": text}))
        run_and_compare(model, NANO, tokens_for(model, 3))


REQUESTS = {
    "prefill": [30],
    "ones": [1] * 30,
    "twos": [2] * 15,
    "threes": [3] * 10,
    "sevens": [7, 7, 7, 7, 2],
    "uneven": [5, 1, 11, 2, 11],
}


@pytest.mark.parametrize("requests", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("tokens", [1, 3, 4])
def test_chunking_does_not_show(requests, chunks, tokens):
    """However a prompt is cut, by the host or by the program: one golden result."""
    model = Shape(experts=4, top_k=2, windows=(11,)).model(15)
    run_and_compare(model, BASE, tokens_for(model, 30), requests, chunks=chunks, tokens=tokens)


def test_rejected_tokens_leave_no_trace():
    """Positions that were dropped and written again give the bits of never having been there."""
    model = Shape(layers=2).model(16)
    tokens = tokens_for(model, 40)
    expected = forward(model, tokens, Cache(model))
    session = Session(build(model, SMALL, logits=True))
    session.append(tokens[:33])
    for length in (-1, 34):
        with pytest.raises(ValueError, match=rf"^length is {length}, it must be 0 to 33\.$"):
            session.length = length
    session.append(tokens_for(model, 5, seed=9))
    session.length = 20
    session.append(tokens_for(model, 3, seed=10))
    session.length = 20
    logits = session.append(tokens[20:])
    np.testing.assert_array_equal(bits(logits), bits(expected[20:]))


def test_the_next_token_without_logits():
    model = Shape(vocabulary=200).model(17)
    tokens = tokens_for(model, 11)
    expected = forward(model, tokens, Cache(model))[-1]
    session = Session(build(model, BASE))
    assert session.append(tokens) == np.argmax(expected)


def test_requests_that_cannot_be_met_are_refused_and_change_nothing():
    model = Shape(context=32).model(18)
    session = Session(build(model, SMALL, logits=True))
    first = session.append([1, 2, 3])
    with pytest.raises(ValueError, match=r"^token is 70, it must be 0 to 69\.$"):
        session.append([1, 70])
    with pytest.raises(
        ValueError, match=r"^The sequence would have 33 tokens, there is room for 32"
    ):
        session.append([1] * 30)
    with pytest.raises(ValueError, match="at least one"):
        session.append([])
    session.length = 0
    np.testing.assert_array_equal(bits(session.append([1, 2, 3])), bits(first))


@pytest.mark.parametrize("capacity", [1, 4, 31, 33])
def test_no_position_beyond_those_that_were_asked_for(capacity):
    """Tables end there, though regions and the KV cache are rounded up."""
    model = Shape(context=64).model(18)
    config = BASE.replace(pseudo_channels=16, acc_depth=4, stream_bytes=0)
    tokens = tokens_for(model, capacity)
    session = run_and_compare(model, config, tokens, capacity=capacity)
    with pytest.raises(
        ValueError, match=rf"{capacity + 1} tokens, there is room for {capacity}\.$"
    ):
        session.append([1])


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (PRESETS["slice"], r"^pseudo_channels is 6; programs need a power of two\.$"),
        (SMALL.replace(acc_depth=48), r"^acc_depth is 48; programs need a power of two\.$"),
        (SMALL.replace(acc_depth=1024), r"^acc_depth·pseudo_channels is 1024; scores need vector"),
        (SMALL.replace(transposer=False), r"^transposer is false; attention needs one, for V\.$"),
        (SMALL.replace(formats="mxfp4"), r"^formats is mxfp4; random has inputs in mxint8\.$"),
    ],
)
def test_tiles_that_run_no_programs_are_refused(config, sentence):
    with pytest.raises(DoesNotFit, match=sentence):
        build(Shape().model(), config)


def test_an_engine_of_four_bits_runs_models_of_four_bits():
    model = Shape(experts=3, top_k=2, formats="mxfp4").model(26)
    run_and_compare(model, SMALL.replace(formats="mxfp4"), tokens_for(model, 9))


@pytest.mark.parametrize(
    ("experts", "groups", "sentence"),
    [
        (64, 64, r"^groups is 64; scores of the groups of 1 tokens need row registers of 64 words"),
        (1024, 16, r"^groups is 16; groups of 64 experts take 32 slots, a mask has 16\.$"),
    ],
)
def test_groups_that_do_not_fit_are_refused(experts, groups, sentence, monkeypatch):
    monkeypatch.setattr("gen.kernels.router.MASK_SLOTS", 16)
    shape = Shape(experts=experts, kind=RouterKind.SIGMOID, groups=(groups, 2), hidden=8, width=32)
    with pytest.raises(DoesNotFit, match=sentence):
        build(shape.model(), BASE.replace(vector_bytes=1 << 20))


def test_tokens_of_a_chunk_shrink_for_the_scores_of_groups():
    """Eight groups of DeepSeek-V3: at most four tokens fit a row register of 32 words."""
    shape = Shape(
        experts=32, top_k=3, kind=RouterKind.SIGMOID, groups=(8, 3), hidden=32, formats="mxfp4"
    )
    model = shape.model(27)
    config = BASE.replace(vector_bytes=1 << 18)
    session = run_and_compare(model, config, tokens_for(model, 12))
    assert session.stored.plan.tokens == 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"capacity": 0}, r"^capacity is 0, it must be at least 1\.$"),
        ({"tokens": 0}, r"^tokens is 0, it must be at least 1\.$"),
        ({"chunks": 3}, r"^chunks is 3, it must be 1 or 2\.$"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        build(Shape().model(), SMALL, **arguments)


def test_more_tokens_than_the_engine_takes_are_fewer():
    model = Shape().model(28)
    session = run_and_compare(model, SMALL, tokens_for(model, 9), tokens=100)
    assert session.stored.plan.tokens == 2


def test_memory_that_is_too_small_is_refused_by_name_and_number():
    model = Shape(context=64).model()
    needed = build(model, SMALL, tokens=1).stored.map.end
    assert build(model, SMALL, memory=needed, tokens=1).stored.map.end == needed
    with pytest.raises(DoesNotFit, match=r"^outputs needs [0-9,]+ bytes, 32 more than"):
        build(model, SMALL, memory=needed - 32, tokens=1)


def test_a_program_without_its_fence_is_stopped():
    tile_program = build(Shape().model(19), SMALL, logits=True)
    session = Session(tile_program)
    session.words = list(session.words)
    nothing = OPCODES["add"](to=S(0), a=S(0), b=0).words
    for line in tile_program.program.lines:
        if line.instruction.name == "fence":
            session.words[line.address : line.address + 1] = nothing
    with pytest.raises(ProgramError, match=r"streams what was stored since the last fence.*matrix"):
        session.append([1, 2, 3])


LEAST_NOTICED = {"maxima_resume": 0.4, "last": 0.4, "into": 0.35, "resume": 0.4, "range_step": 0.15}
"""Share of the changed instructions that show."""


@pytest.mark.parametrize("field", ["maxima_resume", "last", "into", "resume", "range_step"])
def test_one_wrong_field_is_noticed(field):
    """Each kind of mistake a kernel could make shows in some bit, or stops the program."""
    shape = Shape(width=160, hidden=200, sinks=True, windows=(9,), context=96, head=64)
    model = shape.model(20)
    config = BASE.replace(vector_bytes=32768)
    tokens = tokens_for(model, 20)
    expected = bits(forward(model, tokens, Cache(model)))
    tile_program = build(model, config, logits=True)
    right = Session(tile_program).words
    noticed = tried = 0
    for line in tile_program.program.lines:
        values = line.instruction.values
        if line.instruction.name not in ("vector", "matrix") or not values.get(field):
            continue
        tried += 1
        wrong = values[field] // 2 if type(values[field]) is int else 0
        changed = replace(line.instruction, values={**values, field: wrong}).words
        session = Session(tile_program)
        session.words = list(right)
        session.words[line.address : line.address + len(changed)] = changed
        try:
            noticed += not np.array_equal(bits(session.append(tokens)), expected)
        except ProgramError:
            noticed += 1
    # Code for chunks in flight or for rows that twenty tokens do not have changes nothing.
    assert noticed >= LEAST_NOTICED[field] * tried


def test_listing_and_map_are_readable():
    tile_program = build(Shape(experts=2).model(21), SMALL)
    listing = tile_program.program.listing()
    for phase in ("embedding", "norm", "queries, keys, values", "attention", "experts", "head"):
        assert f"; {phase}" in listing
    assert "layer:" in listing
    rows = tile_program.stored.map.rows()
    assert [row["region"] for row in rows][:3] == ["embedding", "rope", "places"]
    regions = tile_program.stored.map.regions
    for before, after in itertools.pairwise(regions):
        assert before.end == after.address
        assert after.address % SMALL.line_bytes == 0


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(60))
def test_random_models_on_random_tiles(seed):
    rng = np.random.default_rng(seed)

    def pick(*choices):
        return choices[rng.integers(len(choices))]

    experts = pick(0, 0, 1, 4, 8, 32)
    sigmoid = bool(experts) and rng.random() < 0.4
    groups = pick(2, 4) if sigmoid and experts >= 4 and rng.random() < 0.6 else 1
    top_k = int(rng.integers(1, min(experts, 6) + 1)) if experts else 1
    least = max(1, -(-top_k * groups // max(experts, 1)))
    shape = Shape(
        heads=pick((3, 1), (4, 2), (8, 8), (12, 4), (1, 1), (2, 1), (7, 1)),
        head=pick(8, 16, 32, 64),
        width=pick(32, 40, 64, 96, 128, 160),
        hidden=pick(32, 40, 85, 172),
        layers=pick(1, 2, 3),
        windows=tuple(pick(None, None, 5, int(rng.integers(1, 70))) for _ in range(3)),
        sinks=rng.random() < 0.5,
        bias=rng.random() < 0.5,
        clamped=rng.random() < 0.5,
        experts=experts,
        top_k=top_k,
        kind=RouterKind.SIGMOID if sigmoid else RouterKind.SOFTMAX,
        groups=(groups, int(rng.integers(least, groups + 1))),
        shared=bool(experts) and rng.random() < 0.3,
        pairing=pick(*Pairing),
        vocabulary=pick(50, 100, 150),
        context=pick(40, 96, 160, 300),
        formats=pick("mixed", "mxint8", "mxfp4"),
    )
    config = pick(NANO, SMALL, BASE)
    if rng.random() < 0.5:
        config = config.replace(
            acc_depth=pick(1, 4, 16, 32),
            pseudo_channels=pick(1, 2, 4),
            lanes=pick(2, 4, 8),
            vector_bytes=pick(16384, 32768),
            act_blocks=pick(8, 16, 96),
            stream_bytes=0,
        )
    model = shape.model(seed)
    count = min(pick(1, 2, 7, 31, 32, 33, 100), model.context)
    requests, left = [], count
    while left:
        requests.append(min(left, int(rng.integers(1, 20))))
        left -= requests[-1]
    run_and_compare(model, config, tokens_for(model, count, seed), requests)
