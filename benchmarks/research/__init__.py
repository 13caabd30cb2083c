"""Research programs as people write them, one module per field; each module has its ``ROWS``."""
