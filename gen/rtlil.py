"""Passes over RTLIL text, the form in which Amaranth hands a design to Yosys.

Amaranth writes one module per *instance*, names it by its dotted path, and adds a wire for every
field of every structured signal. The passes here fold modules that are the same, and give all a
name that needs no escaping in Verilog. They rely on the shape of the text that Amaranth writes:
one statement per line, and the connections of a module, unlike those of its cells, not indented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from gen.keywords import RESERVED

_MODULE = re.compile(r"module \\(\S+)")
_CELL = re.compile(r"(\s*cell )\\(\S+)( \\\S+)")
_WIRE = re.compile(r"\s*wire width (\d+)(?: (input|output|inout) (\d+))? *( signed)? \\(\S+)")
_MEMORY_NAME = re.compile(r'(\s*parameter \\MEMID )"\\\\(\S+)"')
_INIT = re.compile(r"\s*attribute \\init ")
_PRIORITY = re.compile(r"\s*parameter (?:signed )?\\PRIORITY ")
_STRING_OR_NAME = re.compile(r'"(?:\\.|[^"\\])*"|\\\S+')
_FIELD = re.compile(r"\\(\S+[.\[]\S*)")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Port:
    """A port of a module.

    Attributes
    ----------
    name
        Name in the Verilog.
    direction
        ``input``, ``output`` or ``inout``.
    width
        Width in bits.
    signed
        Whether Amaranth declared it signed; Verilog ports are all unsigned.
    """

    name: str
    direction: str
    width: int
    signed: bool = False


@dataclass(frozen=True)
class Module:
    """A module: its name, without the backslash, and the lines between header and ``end``."""

    name: str
    lines: tuple[str, ...]

    @property
    def ports(self) -> tuple[Port, ...]:
        """Ports in order of position."""
        wires = (match for line in self.lines if (match := _WIRE.fullmatch(line)))
        ports = [
            (int(position), Port(name, direction, int(width), bool(signed)))
            for width, direction, position, signed, name in (wire.groups() for wire in wires)
            if direction
        ]
        return tuple(port for _, port in sorted(ports, key=lambda item: item[0]))


def parse(text: str, *, fields: bool = False) -> list[Module]:
    """Return the modules of RTLIL text, reduced to what decides their behaviour.

    Attributes other than initial values are dropped, and so are, unless `fields`, the wires that
    only repeat a field of a structured signal. The order of prints and assertions, which Amaranth
    counts through the whole design, is counted per module: equal modules have equal text.
    """
    modules = []
    name, lines = "", list[str]()
    for line in text.splitlines():
        if match := _MODULE.fullmatch(line):
            name, lines = match[1], []
        elif line == "end":
            modules.append(Module(name, tuple(lines)))
        elif line and (_INIT.match(line) or not line.lstrip().startswith("attribute ")):
            lines.append(line)
    modules = [_renumber_priorities(module) for module in modules]
    return modules if fields else [_drop_fields(module) for module in modules]


def write(modules: Iterable[Module]) -> str:
    """Return the text of `modules`."""
    return "".join(
        f"module \\{module.name}\n" + "".join(f"{line}\n" for line in module.lines) + "end\n"
        for module in modules
    )


def fold(modules: list[Module], named: Collection[str]) -> list[Module]:
    """Return `modules` with every distinct module once, under a plain name.

    Two modules are the same when they differ in nothing but their names and those of modules below
    them. A module in `named` keeps its name. Any other is named after the first place where it is
    used: the module around it, two underscores, and the instance, without its number if there are
    several.

    Parameters
    ----------
    modules
        Every module of the design.
    named
        Names of tops and leaves.
    """
    by_name = {module.name: module for module in modules}
    class_of: dict[str, int] = {}
    classes: dict[tuple[str, ...], int] = {}
    members: list[list[Module]] = []

    def classify(module: Module) -> int:
        if module.name not in class_of:
            key = _with_children(
                module, lambda child: f"#{classify(by_name[child])}" if child in by_name else child
            ).lines
            number = classes.setdefault(key, len(classes))
            if number == len(members):
                members.append([])
            class_of[module.name] = number
        return class_of[module.name]

    for module in modules:
        members[classify(module)].append(module)

    names: dict[int, str] = {}
    for number, same in enumerate(members):
        kept = [module.name for module in same if module.name in named]
        if kept:
            names[number] = kept[0]
    taken = set(named)
    by_depth = sorted(
        (number for number in range(len(members)) if number not in names),
        key=lambda number: members[number][0].name.count("."),
    )
    for number in by_depth:
        same = members[number]
        parent, _, instance = same[0].name.rpartition(".")
        if len(same) > 1:
            instance = re.sub(r"[_$]*\d+$", "", instance) or instance
        names[number] = _unused(f"{names[class_of[parent]]}__{_plain(instance)}", taken)
        taken.add(names[number])

    folded = {}
    for module in modules:
        name = names[class_of[module.name]]
        if name not in folded:
            body = _with_children(
                module, lambda child: names[class_of[child]] if child in class_of else child
            )
            folded[name] = replace(body, name=name)
    return list(folded.values())


def legalise(modules: list[Module]) -> list[Module]:
    """Return `modules` with names that need no escaping and are no reserved words.

    One map serves the whole design, so that the ports of a module and of its instances stay the
    same. Names that are plain already do not change.
    """
    names: dict[str, None] = {}
    for module in modules:
        for line in module.lines:
            for token in _STRING_OR_NAME.findall(line):
                if token[0] == "\\":
                    names[token[1:]] = None
    taken = {name for name in names if _is_plain(name)}
    plain = {}
    for name in names:
        if name not in taken:
            plain[name] = _unused(_plain(name), taken)
            taken.add(plain[name])

    def rename(match: re.Match[str]) -> str:
        token = match[0]
        return "\\" + plain.get(token[1:], token[1:]) if token[0] == "\\" else token

    def rename_memory(match: re.Match[str]) -> str:
        return f'{match[1]}"\\\\{plain.get(match[2], match[2])}"'

    if not plain:
        return modules
    return [
        replace(
            module,
            lines=tuple(
                _MEMORY_NAME.sub(rename_memory, _STRING_OR_NAME.sub(rename, line))
                for line in module.lines
            ),
        )
        for module in modules
    ]


def _is_plain(name: str) -> bool:
    return _PLAIN_NAME.fullmatch(name) is not None and name not in RESERVED


def _plain(name: str) -> str:
    """Return `name` as a legal identifier that is no reserved word."""
    plain = re.sub(r"\W", "_", name.replace(".", "__").replace("]", ""), flags=re.ASCII)
    if plain[:1].isdigit() or not plain:
        plain = f"_{plain}"
    return f"{plain}_" if plain in RESERVED else plain


def _unused(name: str, taken: Collection[str]) -> str:
    """Return `name`, with the first number that makes it differ from all in `taken`."""
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def _with_children(module: Module, rename: Callable[[str], str]) -> Module:
    """Return `module` with the types of its cells renamed."""
    return replace(
        module,
        lines=tuple(
            _CELL.sub(lambda match: f"{match[1]}\\{rename(match[2])}{match[3]}", line)
            if line.startswith("  cell \\")
            else line
            for line in module.lines
        ),
    )


def _renumber_priorities(module: Module) -> Module:
    lines = list(module.lines)
    at = [index for index, line in enumerate(lines) if _PRIORITY.match(line)]
    for rank, index in enumerate(at):
        lines[index] = f"    parameter signed \\PRIORITY 32'{(1 << 32) - 1 - rank:032b}"
    return replace(module, lines=tuple(lines))


def _drop_fields(module: Module) -> Module:
    """Drop wires whose name has a dot or bracket, and that are driven but not used."""
    statements: dict[str, list[int]] = {}
    used = set()
    for index, line in enumerate(module.lines):
        names = _FIELD.findall(line)
        wire = _WIRE.fullmatch(line)
        if names and (wire or line.startswith(f"connect \\{names[0]} ")):
            statements.setdefault(names.pop(0), []).append(index)
        used.update(names)
    dropped = {index for name in statements.keys() - used for index in statements[name]}
    lines = (line for index, line in enumerate(module.lines) if index not in dropped)
    return replace(module, lines=tuple(lines))
