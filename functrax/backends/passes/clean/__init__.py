"""Passes that make programs smaller and more regular, one file each."""
