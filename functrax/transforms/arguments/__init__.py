"""Between users' functions and flat programs: pytrees, references, static arguments, types."""
