"""The rules of the HBM timing checker: their names and what they ask for.

``checker.sv`` enforces them. A rule that is a distance is broken when two commands are closer than
the timing set says; the others speak of the state of a bank or a bus.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

RULES: Mapping[str, str] = MappingProxyType(
    {
        # distances between commands for the same bank
        "RCDRD": "ACT to RD",
        "RCDWR": "ACT to WR",
        "RAS": "ACT to PRE or PREA",
        "RC": "ACT to ACT, REFpb or REFab",
        "RP": "PRE or PREA, the last one, to ACT, REFpb or REFab",
        "RTP": "RD to PRE or PREA",
        "WR": "last data of WR to PRE or PREA; the distance is WL + 2 + WR",
        "RFCPB": "REFpb to ACT, PRE or REFpb of the bank, to PREA and to REFab",
        # distances between banks
        "RRD_S": "ACT to ACT or REFpb, other bank group",
        "RRD_L": "ACT to ACT or REFpb, other bank of the same group",
        "FAW": "ACT or REFpb to the fourth ACT or REFpb after it",
        "CCD_S": "RD to RD or WR to WR, other bank group",
        "CCD_L": "RD to RD or WR to WR, same bank group",
        "WTR_S": "last data of WR to RD, other bank group; the distance is WL + 2 + WTR_S",
        "WTR_L": "last data of WR to RD, same bank group; the distance is WL + 2 + WTR_L",
        "RTW": "RD to WR",
        "PPD": "PRE or PREA to PRE or PREA",
        "RREFD": "REFpb to ACT or REFpb, other bank",
        "RFCAB": "REFab to any row command",
        # states
        "ACT_OPEN": "ACT needs its bank closed",
        "CLOSED": "RD and WR need an open row",
        "REF_OPEN": "REFpb needs its bank closed, REFab every bank",
        "ROW_BUS": "no row command in the second cycle of ACT",
        "DATA_BUS": "the data of two accesses must not meet",
        "LATE": "a bank is refreshed before its deadline",
        "ROTATION": "REFpb visits every bank before it visits one again",
        "RANGE": "bank and row exist",
        "ENCODING": "the command is one",
    }
)
"""Every rule by name, in the order of their numbers in the hardware."""
