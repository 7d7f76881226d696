"""One test per module, in folders that mirror the sources."""
