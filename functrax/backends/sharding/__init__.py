"""Meshes, partition specs and shardings: how programs say on which devices arrays lie.

``partition.py`` has the spec of an array, ``mesh.py`` the grid of devices, ``context.py`` the mesh
that a block of code is for, ``shardings.py`` the two together, ``placed.py`` which sharding an
array was given, and ``assembling.py`` arrays made of their parts.  There is one device, so a mesh
that holds arrays has size 1; abstract meshes, which hold none, may have any size.
"""
