"""Packages on disk: what is in them, that they appear whole, and that mixtures are noticed."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from gen import blocks, package
from gen.header import c_header
from gen.lookup import UnknownName
from gen.package import MANIFEST, PackageError, generate, read, write
from rtl.config import PRESETS, TileConfig
from rtl.counters import Counter
from rtl.registers import Access, Field, Register, RegisterBlock, RegisterMap
from sim.lint import lint

CONFIG = PRESETS["nano"]
LAYOUT = data.StructLayout(
    {
        "head": data.StructLayout({"kind": 3, "delta": data.StructLayout({"x": range(-4, 4)})}),
        "codes": data.ArrayLayout(4, 8),
    }
)


def demo_map(config: TileConfig) -> RegisterMap:
    on = Field("on", 1, Access.READ_WRITE, "run", reset=1)
    gain = Field("gain", 4, Access.READ_WRITE, "gain")
    events = Counter("events", "events seen", bits=40)
    return RegisterMap(config, [Register("control", "control", (on, gain))], [events])


class Demo(wiring.Component):
    """A register, a counter and a structured port."""

    def __init__(self, config: TileConfig) -> None:
        self.register_map = demo_map(config)
        self.block = RegisterBlock(self.register_map)
        super().__init__({"bus": self.block.signature.members["bus"], "i": In(LAYOUT), "o": Out(8)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.registers = self.block
        connect(m, flipped(self.bus), self.block.bus)
        m.d.comb += self.block.step.events.eq(self.block.control.on & self.i.head.kind.any())
        m.d.comb += self.o.eq(self.i.codes[3] + self.i.head.delta.x + self.block.control.gain)
        return m


@pytest.fixture
def built(tmp_path: Path) -> package.Package:
    return write("demo", Demo(CONFIG), CONFIG, tmp_path / "my build")


def test_directory_is_named_by_block_and_configuration(built: package.Package) -> None:
    assert built.directory.name == f"demo-{CONFIG.hash}"
    assert {file.name for file in built.directory.iterdir()} == {
        "jalapeno_demo.sv",
        "jalapeno_demo.vlt",
        "jalapeno_demo.h",
        "jalapeno_demo.core",
        "manifest.json",
    }
    assert [entry.name for entry in built.directory.parent.iterdir()] == [built.directory.name]


def test_manifest(built: package.Package) -> None:
    manifest = json.loads((built.directory / MANIFEST).read_text())
    assert manifest == built.manifest
    assert TileConfig.from_dict(manifest["configuration"]) == CONFIG == built.config
    assert manifest["hash"] == CONFIG.hash
    assert manifest["top"] == "jalapeno_demo"
    assert manifest["modules"][0] == "jalapeno_demo"
    for file in manifest["files"]:
        content = (built.directory / file["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
    assert [register["name"] for register in manifest["registers"]] == [
        "identity", "config_hash_low", "config_hash_high", "control", "counter_control",
    ]  # fmt: skip
    assert manifest["counters"] == [
        {"name": "events", "offset": 20, "bits": 40, "description": "events seen"}
    ]


def test_manifest_describes_structured_ports(built: package.Package) -> None:
    ports = {port["name"]: port for port in built.manifest["ports"]}
    assert (ports["clk"]["direction"], ports["clk"]["width"]) == ("input", 1)
    assert "fields" not in ports["o"]
    assert ports["i"]["width"] == 38
    assert ports["i"]["fields"] == [
        {"name": "head.kind", "lsb": 0, "width": 3, "signed": False, "length": 1},
        {"name": "head.delta.x", "lsb": 3, "width": 3, "signed": True, "length": 1},
        {"name": "codes", "lsb": 6, "width": 32, "signed": False, "length": 8},
    ]


def test_the_package_lints_as_shipped(built: package.Package) -> None:
    lint([built.verilog], (built.directory / "jalapeno_demo.vlt").read_text())


def test_c_header_compiles_and_agrees_with_the_manifest(built: package.Package) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = built.directory / "main.c"
    program.write_text(
        "#include <stdio.h>\n"
        '#include "jalapeno_demo.h"\n'
        "int main(void) {\n"
        '  printf("%llx %d %d ", JALAPENO_DEMO_CONFIG_HASH, JALAPENO_DEMO_CONFIG_LANES,\n'
        "         JALAPENO_DEMO_CONFIG_MESH_X);\n"
        '  printf("%s %d ", JALAPENO_DEMO_CONFIG_TIMING, JALAPENO_DEMO_CONFIG_ECC);\n'
        '  printf("%d %d %x ", JALAPENO_DEMO_CONTROL_OFFSET, JALAPENO_DEMO_CONTROL_GAIN_SHIFT,\n'
        "         JALAPENO_DEMO_CONTROL_GAIN_MASK);\n"
        '  printf("%d %d %d\\n", JALAPENO_DEMO_CONTROL_ON_RESET,\n'
        "         JALAPENO_DEMO_COUNTER_EVENTS_OFFSET, JALAPENO_DEMO_COUNTER_EVENTS_BITS);\n"
        "  return 0;\n"
        "}\n"
    )
    binary = built.directory / "main"
    subprocess.run([compiler, "-Wall", "-Werror", "-o", binary, program], check=True)
    output = subprocess.run([binary], capture_output=True, text=True, check=True).stdout
    assert output == f"{int(CONFIG.hash, 16):x} 2 2 hbm3-6400 1 12 1 1e 1 20 40\n"


def test_header_has_no_constant_twice() -> None:
    defined = [
        line.split()[1]
        for line in c_header("demo", CONFIG, demo_map(CONFIG)).splitlines()
        if line.startswith("#define")
    ]
    assert len(defined) == len(set(defined))


def test_core_file_names_what_is_there(built: package.Package) -> None:
    core = (built.directory / "jalapeno_demo.core").read_text()
    assert core.startswith("CAPI=2:\n")
    assert f"name: jalapeno:rtl:demo_{CONFIG.hash}:" in core
    for file in ("jalapeno_demo.sv", "jalapeno_demo.vlt"):
        assert f"- {file}: " in core
        assert (built.directory / file).exists()


def test_same_bytes_wherever_and_whenever(built: package.Package, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    program = (
        "from pathlib import Path; from gen.package import write; from rtl.config import PRESETS;"
        "from tests.gen.test_package import Demo;"
        "write('demo', Demo(PRESETS['nano']), PRESETS['nano'], Path('else where'))"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONHASHSEED": "99", "PYTHONPATH": str(root), "TZ": "Asia/Tokyo"},
        check=True,
    )
    other = tmp_path / "else where" / built.directory.name
    for file in built.directory.iterdir():
        assert (other / file.name).read_bytes() == file.read_bytes()
        assert str(tmp_path).encode() not in file.read_bytes()


def test_generating_again_repairs_and_keeps_other_files(built: package.Package) -> None:
    results = built.directory / "results.txt"
    results.write_text("precious")
    built.verilog.write_text("garbage")
    with pytest.raises(PackageError, match=r"jalapeno_demo\.sv has changed since it was generated"):
        read(built.directory)
    again = write("demo", Demo(CONFIG), CONFIG, built.directory.parent)
    assert read(built.directory).manifest == again.manifest == built.manifest
    assert results.read_text() == "precious"
    assert len(list(built.directory.parent.iterdir())) == 1


def test_failure_leaves_nothing_behind(
    built: package.Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text = Path.write_text

    def full(self: Path, *args: Any, **kwargs: Any) -> int:
        if self.name == MANIFEST:
            raise OSError(28, "No space left on device")
        return write_text(self, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", full)
    for out_dir in (tmp_path / "new", built.directory.parent):
        with pytest.raises(OSError, match="No space left"):
            write("demo", Demo(CONFIG), CONFIG, out_dir)
    assert list((tmp_path / "new").iterdir()) == []
    assert read(built.directory).manifest == built.manifest


def test_interrupted_replacement_is_no_package(
    built: package.Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write("demo", Demo(CONFIG), CONFIG, built.directory.parent)
    with pytest.raises(PackageError, match=r"manifest\.json cannot be read: No such file"):
        read(built.directory)


@pytest.mark.parametrize("change", [{"hash": "0" * 12}, {"configuration": TileConfig().to_dict()}])
def test_mixed_configurations_are_refused(built: package.Package, change: dict) -> None:
    manifest = built.directory / MANIFEST
    manifest.write_text(json.dumps({**built.manifest, **change}))
    with pytest.raises(PackageError, match="mixes configurations; generate it again"):
        read(built.directory)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": []}'])
def test_what_is_no_manifest_is_refused(built: package.Package, text: str) -> None:
    (built.directory / MANIFEST).write_text(text)
    with pytest.raises(PackageError, match="is no manifest of this version"):
        read(built.directory)


def test_blocks_are_found_by_name() -> None:
    assert blocks.find("mac").name == "mac"
    with pytest.raises(UnknownName, match=r"There is no block mca; did you mean mac\?"):
        generate("mca", CONFIG)
    with pytest.raises(UnknownName, match=r"There is no block tpu; choose from mac, "):
        blocks.find("tpu")


@pytest.mark.parametrize("name", blocks.BLOCKS)
def test_every_block_generates_and_has_no_two_identical_modules(name: str, tmp_path: Path) -> None:
    built = generate(name, PRESETS["base"], tmp_path)
    assert read(built.directory).manifest == built.manifest
    texts = built.verilog.read_text().split("\nendmodule\n")[:-1]
    bodies = {text.partition("\nmodule ")[2].partition("(")[2] for text in texts}
    assert len(bodies) == len(built.manifest["modules"]) == len(texts)


@pytest.mark.parametrize("name", blocks.BLOCKS)
def test_every_block_is_the_same_for_every_hash_seed(name: str, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    program = (
        "import sys; from pathlib import Path; from gen.package import generate;"
        "from rtl.config import PRESETS; generate(sys.argv[1], PRESETS['nano'], Path())"
    )
    seen = []
    for seed in ("1", "2"):
        directory = tmp_path / seed
        directory.mkdir()
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        subprocess.run(
            [sys.executable, "-c", program, name], cwd=directory, env=environment, check=True
        )
        files = sorted((directory / f"{name}-{CONFIG.hash}").iterdir())
        seen.append({file.name: file.read_bytes() for file in files})
    assert len(seen[0]) == 5
    assert seen[0] == seen[1]
