"""Tests of the testbenches: they run the cocotb tests under Verilator."""
