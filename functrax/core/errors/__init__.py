"""Errors: their types, the user's lines that they name, and those that are raised later."""
