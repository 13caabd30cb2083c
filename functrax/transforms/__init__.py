"""The transformations: interpreters of the language, and what users call."""
