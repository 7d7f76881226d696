"""The imported weights against the package's own forward pass."""

import numpy as np
import pytest

from gen.models import glassllm
from sim.golden import reference

PROMPT = "Alice was beginning to get very tired of sitting by her sister on the bank"


@pytest.fixture(scope="module")
def model():
    return glassllm.load()


@pytest.fixture(scope="module")
def tokens(model):
    return model.tokenizer.encode(PROMPT)


@pytest.fixture(scope="module")
def products(model, tokens):
    return model.capture(tokens)


def test_shapes(model):
    shapes = {name: weight.shape for name, weight in model.weights.items()}
    assert shapes.pop("E") == (1024, 128)
    assert shapes.pop("norm_f.gamma") == (128,)
    layer = {
        "norm1.gamma": (128,),
        "attn.W_Q": (128, 128),
        "attn.W_K": (64, 128),
        "attn.W_V": (64, 128),
        "attn.W_O": (128, 128),
        "norm2.gamma": (128,),
        "ffn.W1": (341, 128),
        "ffn.W3": (341, 128),
        "ffn.W2": (128, 341),
    }
    assert shapes == {f"blocks.{i}.{name}": layer[name] for i in range(4) for name in layer}
    assert all(weight.dtype == np.float32 for weight in model.weights.values())


@pytest.mark.parametrize("language", ["en", "pt"])
def test_parameter_count_and_precision(language):
    weights = glassllm.load(language).weights
    assert sum(weight.size for weight in weights.values()) == 852_608
    assert all((weight == weight.astype(np.float16)).all() for weight in weights.values())


def test_unknown_language_is_refused():
    with pytest.raises(ValueError, match="unknown language"):
        glassllm.load("tlh")


def test_too_long_a_prompt_is_refused(model):
    with pytest.raises(ValueError, match="max_len"):
        model.capture([5] * 129)


def test_captured_shapes(model, products, tokens):
    assert len(tokens) == 24
    assert set(products) == {name for name, weight in model.weights.items() if weight.ndim == 2}
    for name, (inputs, outputs) in products.items():
        assert inputs.shape == (24, model.weights[name].shape[1])
        assert outputs.shape == (24, model.weights[name].shape[0])
        assert inputs.dtype == outputs.dtype == np.float32


def test_weights_times_inputs_are_the_outputs(model, products):
    for name, (inputs, outputs) in products.items():
        weight = model.weights[name].astype(np.float64)
        magnitude = np.abs(inputs) @ np.abs(weight.T)
        assert (np.abs(inputs @ weight.T - outputs) <= 2e-7 * magnitude).all(), name


def test_documented_architecture_gives_the_logits(model, products, tokens):
    """The module's description, in float64, from embedding to logits."""
    weights = {name: weight.astype(np.float64) for name, weight in model.weights.items()}
    count = len(tokens)

    def norm(x, gamma):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * gamma

    def rotate(x):
        angle = np.arange(count)[:, None, None] * 10000.0 ** (-2 * np.arange(16) / 32)
        a, b = x[..., 0::2], x[..., 1::2]
        pairs = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
        return np.stack(pairs, -1).reshape(x.shape)

    x = weights["E"][tokens]
    for layer in range(4):
        w = {name.split(".", 2)[-1]: v for name, v in weights.items() if f".{layer}." in name}
        h = norm(x, w["norm1.gamma"])
        q = rotate((h @ w["attn.W_Q"].T).reshape(count, 4, 32))
        k = rotate((h @ w["attn.W_K"].T).reshape(count, 2, 32))
        v = (h @ w["attn.W_V"].T).reshape(count, 2, 32)
        mixed = np.empty((count, 4, 32))
        for head in range(4):
            scores = q[:, head] @ k[:, head // 2].T / np.sqrt(32)
            scores[np.triu_indices(count, 1)] = -np.inf
            p = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, head] = p / p.sum(-1, keepdims=True) @ v[:, head // 2]
        x = x + mixed.reshape(count, 128) @ w["attn.W_O"].T
        h = norm(x, w["norm2.gamma"])
        gate, up = h @ w["ffn.W1"].T, h @ w["ffn.W3"].T
        act = gate / (1 + np.exp(-gate)) * up
        np.testing.assert_allclose(products[f"blocks.{layer}.ffn.W1"].inputs, h, atol=1e-6)
        np.testing.assert_allclose(products[f"blocks.{layer}.ffn.W2"].inputs, act, atol=1e-5)
        x = x + act @ w["ffn.W2"].T
    logits = norm(x, weights["norm_f.gamma"]) @ weights["E"].T
    np.testing.assert_allclose(products["E"].outputs, logits, atol=1e-5)


@pytest.mark.parametrize("language", ["en", "pt"])
def test_imported_model_gives_the_logits(language):
    loaded = glassllm.load(language)
    tokens = loaded.tokenizer.encode("A")[:1] * 3 + [7, 99, 500]
    imported = loaded.to_model("mine")
    assert (imported.name, imported.context, imported.eps) == ("mine", 128, np.float32(1e-6))
    logits = reference.forward(imported, np.array(tokens))
    np.testing.assert_allclose(logits, loaded.capture(tokens)["E"].outputs, atol=1e-4)


def test_tokenizer(model):
    tokenizer = glassllm.GlassTokenizer(model.tokenizer)
    assert tokenizer.encode(PROMPT) == model.tokenizer.encode(PROMPT)
    assert tokenizer.decode(tokenizer.encode(PROMPT)) == PROMPT
    assert (tokenizer.vocabulary, tokenizer.begin, tokenizer.end) == (1024, (), {3})
