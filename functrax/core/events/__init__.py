"""What happens when: recorded for the profiler, and told to listeners."""
