"""Text from models: what is generated, where it ends, and that a wrong bit is noticed."""

from __future__ import annotations

import numpy as np
import pytest

from gen.lookup import UnknownName
from gen.memory_map import DoesNotFit
from gen.models.errors import ModelError
from gen.models.library import Opened, open_model
from rtl.config import TileConfig
from sim import cli, engines
from sim.engines import GoldenEngine
from sim.golden import transformer
from sim.run import CheckedEngine, Generation, Mismatch, Prompt, greedy, sampler
from tests.sim.cases import Shape

CONFIG = TileConfig()


@pytest.fixture(scope="module")
def opened() -> Opened:
    return open_model("glassllm")


class Scripted:
    """Wants certain tokens, one after the other."""

    def __init__(self, *tokens: int) -> None:
        self.tokens, self.seen = list(tokens), []

    def logits(self) -> np.ndarray:
        logits = np.zeros(1024, np.float32)
        logits[self.tokens.pop(0)] = 1
        return logits

    def prefill(self, tokens):
        self.seen += tokens
        return self.logits()

    def decode(self, token):
        self.seen.append(token)
        return self.logits()

    def figures(self):
        return []


def test_golden_engine_gives_what_the_golden_model_does(opened):
    prompt = Prompt.of("Alice was", opened)
    generation = Generation(GoldenEngine(opened.model, CONFIG), prompt, 10, greedy)
    tokens = list(generation)
    assert [token.number for token in tokens] == transformer.generate(
        opened.model, prompt.tokens, 10
    )
    text = opened.tokenizer.decode([*prompt.tokens, *(token.number for token in tokens)])
    assert "Alice was" + "".join(token.text for token in tokens) + generation.rest == text
    assert generation.stopped == "count"


def test_an_interpreted_tile_has_memory_for_what_is_asked_for():
    """Logits of the whole context of this model are more than any tile can address."""
    model = Shape(context=1 << 17, vocabulary=9000, width=32, hidden=32).model()
    with pytest.raises(DoesNotFit, match=r"^logits needs [0-9,]+ bytes"):
        engines.InterpreterEngine(model, CONFIG)
    engine = engines.InterpreterEngine(model, CONFIG, 4)
    golden = GoldenEngine(model, CONFIG, 4)
    checker = CheckedEngine("interpreter", engine, golden)
    checker.prefill([8999, 1, 2])
    checker.decode(3)
    with pytest.raises(
        ValueError, match=r"^The sequence would have 5 tokens, there is room for 4\.$"
    ):
        engine.decode(4)


def test_the_command_asks_for_what_it_needs(opened, monkeypatch):
    asked = []

    class Watched(GoldenEngine):
        def __init__(self, model, config, positions):
            super().__init__(model, config, positions)
            asked.append((self, positions))

    monkeypatch.setitem(engines.ENGINES, "watched", Watched)
    for count in (1, 7, 1000):
        with pytest.raises(SystemExit) as end:
            cli.main(
                [
                    "run",
                    "glassllm",
                    "--prompt",
                    "Alice",
                    "--tokens",
                    str(count),
                    "--engine",
                    "watched",
                ]
            )
        assert end.value.code == 0
    for engine, positions in asked:
        assert engine._cache.layers[0].length <= positions <= opened.model.context
    assert asked[1][0]._cache.layers[0].length == asked[1][1]


def test_acc_bits_come_from_the_configuration(opened, monkeypatch):
    seen = []

    def forward(model, tokens, cache, acc_bits):
        seen.append(acc_bits)
        return np.zeros((1, 3), np.float32)

    monkeypatch.setattr("sim.engines.forward", forward)
    GoldenEngine(opened.model, TileConfig(acc_bits=40)).decode(5)
    assert seen == [40]


def test_an_end_token_ends_it_and_is_not_shown(opened):
    engine = Scripted(100, 200, 3, 300)
    generation = Generation(engine, Prompt([7, 8], 50, opened.tokenizer), 10, greedy)
    assert [token.number for token in generation] == [100, 200]
    assert generation.stopped == "end"
    assert engine.seen == [7, 8, 100, 200]


def test_no_token_is_run_for_nothing(opened):
    engine = Scripted(100, 200, 300)
    list(Generation(engine, Prompt([7], 50, opened.tokenizer), 2, greedy))
    assert engine.seen == [7, 100]


def test_a_full_context_ends_it(opened):
    prompt = Prompt.of("\n" * 126, opened)
    generation = Generation(GoldenEngine(opened.model, CONFIG), prompt, 10, greedy)
    assert len(list(generation)) == 3  # at positions 126 and 127, and one that needs none
    assert generation.stopped == "context"


def test_prompts_that_are_refused(opened):
    with pytest.raises(ModelError, match="The prompt is empty"):
        Prompt.of("", opened)
    with pytest.raises(ModelError, match=r"The prompt has 129 tokens; the context of glassllm hol"):
        Prompt.of("\n" * 129, opened)
    assert Prompt.of("\n" * 128, opened).room == 1
    with pytest.raises(ModelError, match="glassllm has no tokenizer; give one with --tokenizer"):
        Prompt.of("a", opened._replace(tokenizer=None))


def test_engines_are_found_by_name():
    assert engines.find("golden") is GoldenEngine
    with pytest.raises(UnknownName, match="There is no engine gold; did you mean golden"):
        engines.find("gold")


# --- checking ------------------------------------------------------------------------------------


class Wrong(GoldenEngine):
    """Is golden but for one bit after so many tokens."""

    def __init__(self, model, at: int, index: int) -> None:
        super().__init__(model, CONFIG)
        self.count, self.at, self.index = 0, at, index

    def prefill(self, tokens):
        self.count += len(tokens)
        logits = super().prefill(tokens)
        if self.count == self.at:
            logits = logits.copy()
            logits.view(np.uint32)[self.index] ^= 1
        return logits


def checked(opened, engine):
    checker = CheckedEngine("wrong", engine, GoldenEngine(opened.model, CONFIG))
    prompt = Prompt([7, 8], 50, opened.tokenizer)
    return checker, Generation(checker, prompt, 4, greedy)


def test_every_logit_is_compared(opened):
    checker, generation = checked(opened, GoldenEngine(opened.model, CONFIG))
    assert len(list(generation)) == 4
    assert checker.compared == 4 * 1024


@pytest.mark.parametrize(("at", "index"), [(2, 0), (3, 1023), (5, 511)])
def test_a_wrong_bit_is_noticed(opened, at, index):
    _, generation = checked(opened, Wrong(opened.model, at, index))
    with pytest.raises(Mismatch, match=f"^Logit {index} after {at} tokens is 0x.* in golden.$"):
        list(generation)


def test_zeros_of_another_sign_differ():
    class Zero(Scripted):
        def logits(self):
            return np.array([0.0], np.float32)

    class MinusZero(Scripted):
        def logits(self):
            return np.array([-0.0], np.float32)

    with pytest.raises(Mismatch, match=r"is 0x80000000 \(-0\) in b and 0x00000000 \(0\) in gold"):
        CheckedEngine("b", MinusZero(), Zero()).prefill([1])


def test_another_number_of_logits_is_noticed():
    class Short(Scripted):
        def logits(self):
            return np.zeros(3, np.float32)

    with pytest.raises(Mismatch, match="b returned 3 logits after 1 tokens; golden has 1024"):
        CheckedEngine("b", Short(), Scripted(5)).prefill([1])


# --- choosing ------------------------------------------------------------------------------------


def test_greedy_takes_the_first_of_equals():
    assert greedy(np.array([-1, 2, 2, np.nan], np.float32)) == 1
    assert sampler(0, 5) is greedy


def test_sampling_follows_the_probabilities_and_the_seed():
    logits = np.log(np.array([0.7, 0.2, 0.1], np.float32))
    choose = sampler(1, 3)
    picks = [choose(logits) for _ in range(2000)]
    np.testing.assert_allclose(np.bincount(picks) / 2000, [0.7, 0.2, 0.1], atol=0.03)
    again = sampler(1, 3)
    assert [again(logits) for _ in range(2000)] == picks
    cold = sampler(0.05, 3)
    assert {cold(logits) for _ in range(100)} == {0}


def test_sampling_of_what_is_no_number():
    choose = sampler(1, 0)
    assert choose(np.array([np.nan, 1, np.nan], np.float32)) == 1
    assert choose(np.full(3, np.nan, np.float32)) == 0
    assert choose(np.array([0, np.inf, 0], np.float32)) == 1
