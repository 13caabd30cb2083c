"""The NumPy device, which defines what every program means."""
