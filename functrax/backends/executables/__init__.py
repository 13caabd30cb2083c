"""Compiled programs as data: instructions, their rules, the plan of their memory."""
