"""Libraries of NVIDIA's, which are opened at run time where they are.  Start at ``opened.py``."""
