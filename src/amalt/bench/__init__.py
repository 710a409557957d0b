"""Measurements that a command can repeat."""
