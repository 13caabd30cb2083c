"""What runs beside the program: tasks, and values that are fetched."""
