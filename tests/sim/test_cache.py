"""The cache: complete entries or none, made once."""

import os
import subprocess
import sys

import pytest

from sim import cache


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JALAPENO_CACHE", str(tmp_path / "cache"))


def write(text):
    return lambda folder: (folder / "product").write_text(text)


def never(folder):
    pytest.fail("made again")


def test_entry_is_made_once():
    path, cached = cache.entry("kind", "key", "product", write("1"))
    assert (path.read_text(), cached) == ("1", False)
    assert cache.entry("kind", "key", "product", never) == (path, True)
    other, cached = cache.entry("kind", "other", "product", write("2"))
    assert (other.read_text(), cached) == ("2", False)


def test_failed_entry_is_made_again():
    def fail(folder):
        (folder / "product").write_text("half")
        (folder / "log").write_text("why")
        raise RuntimeError("failed")

    with pytest.raises(RuntimeError, match="failed"):
        cache.entry("kind", "key", "product", fail)
    assert [log.read_text() for log in cache.directory().glob("kind/key.*.partial/log")] == ["why"]
    path, cached = cache.entry("kind", "key", "product", write("whole"))
    assert (path.read_text(), cached) == ("whole", False)
    assert not list(cache.directory().glob("kind/*.partial"))


def test_entry_without_its_product_is_made_again():
    path, _ = cache.entry("kind", "key", "product", write("1"))
    path.unlink()
    path, cached = cache.entry("kind", "key", "product", write("2"))
    assert (path.read_text(), cached) == ("2", False)


def test_parallel_processes_make_an_entry_once(tmp_path):
    script = (
        "import time; from sim import cache\n"
        "def make(folder):\n"
        f"    open({str(tmp_path / 'count')!r}, 'a').write('x')\n"
        "    time.sleep(0.3); (folder / 'product').touch()\n"
        "cache.entry('kind', 'key', 'product', make)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [subprocess.Popen([sys.executable, "-c", script], env=env) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "x"


def test_keys_depend_on_all_content():
    assert cache.content_key({"a": [1], "b": 2}) == cache.content_key({"b": 2, "a": [1]})
    assert cache.content_key(["a", "b"]) != cache.content_key(["b", "a"])
    assert cache.content_key([["a", "b"]]) != cache.content_key([["ab"]])
