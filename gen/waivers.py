"""What Verilator's strictest lint says about generated Verilog and need not be heeded, and why.

Everything else it says is a fault. The waivers are shipped with the Verilog, so that users can lint
it with ``verilator --lint-only -Wall``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WAIVERS", "Waiver", "vlt"]


@dataclass(frozen=True)
class Waiver:
    """One kind of message that is not a fault.

    Attributes
    ----------
    rule : str
        Verilator's name of the warning.
    message : str
        Pattern of the message (``*`` and ``?``).
    reason : str
        Why it cannot be a fault, in one sentence.
    """

    rule: str
    message: str
    reason: str


WAIVERS = (
    Waiver(
        "DECLFILENAME",
        "Filename * does not match MODULE name: *",
        "A block is one file, whatever modules it consists of.",
    ),
    Waiver(
        "UNUSEDPARAM",
        "Parameter is not used: 'JALAPENO_CONFIG_HASH'",
        "The hash of the configuration is there to be read by people and tools.",
    ),
    Waiver(
        "PROCASSINIT",
        "Procedural assignment to declaration with initial value: *",
        "A register has its reset value at power-on, too.",
    ),
    Waiver(
        "CASEINCOMPLETE",
        "Case values incompletely covered *",
        "A process assigns all its signals before the case; a latch would be reported as such.",
    ),
    Waiver(
        "UNUSEDSIGNAL",
        "*ignal* not used: *",
        "Sums are computed in full and interfaces connected whole; slang reports unused ports.",
    ),
    Waiver(
        "WIDTHEXPAND",
        "Operator * expects * bits on the ?HS, but *",
        "Operands of different widths are extended by their own sign, which is what is meant; "
        "assignments and ports are not waived.",
    ),
    Waiver(
        "WIDTHTRUNC",
        "Logical operator LOGNOT expects 1 bit on the LHS, but *",
        "A comparison of a vector with zero is written as its logical negation.",
    ),
    Waiver(
        "WIDTHTRUNC",
        "Operator ASSIGNW expects * bits on the Assign RHS, but Assign RHS's SHIFTR generates *",
        "A part selected at a variable place is written as the low bits of a shift.",
    ),
)


def vlt() -> str:
    """Return the waivers as a Verilator control file, each with its reason."""
    lines = (
        f'// {waiver.reason}\nlint_off -rule {waiver.rule} -file "*" -match "{waiver.message}"\n'
        for waiver in WAIVERS
    )
    return "\n".join(["`verilator_config\n", *lines])
