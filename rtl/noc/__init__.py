"""The network on chip: what tiles send each other, beside the collectives of the ring."""

from rtl.noc.link import FlitLayout, HeaderLayout, LinkSignature
from rtl.noc.mesh import MeshNetwork
from rtl.noc.network import NETWORKS, Noc
from rtl.noc.router import Router

__all__ = [
    "NETWORKS",
    "FlitLayout",
    "HeaderLayout",
    "LinkSignature",
    "MeshNetwork",
    "Noc",
    "Router",
]
