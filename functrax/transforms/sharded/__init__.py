"""Functions of the parts of arrays: ``shard_map`` and ``pmap``."""
