"""Arrays with a value, and the operators that they share with traced ones."""
