"""The host port: AXI4 to the memory of a tile, AXI4-Lite to its registers."""

from rtl.host.axi import HostPort, axi_ports, lite_ports, pass_through

__all__ = ["HostPort", "axi_ports", "lite_ports", "pass_through"]
