"""The tool for programs in files: ``python -m functrax``."""
