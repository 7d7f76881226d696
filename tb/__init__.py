"""cocotb testbenches: drivers, monitors, device models and checkers."""
