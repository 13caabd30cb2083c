"""The transformations: interpreters of the language, one file each."""
