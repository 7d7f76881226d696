"""The golden model, Verilator builds and runs, benches and the command line."""
