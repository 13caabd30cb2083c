"""Functions of the user's own in programs: what they are called with, and how."""
