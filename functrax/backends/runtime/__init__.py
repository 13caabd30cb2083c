"""What runs compiled programs: the C++ extension, or its Python twins."""
