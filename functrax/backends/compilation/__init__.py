"""The way from a program of the language to a compiled one."""
