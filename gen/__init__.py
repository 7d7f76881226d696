"""From a configuration and a model to Verilog, memory images and programs."""
