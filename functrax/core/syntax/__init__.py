"""From text to programs, and the rules that programs keep."""
