"""What equations cost, and programs that keep to a budget of memory."""
