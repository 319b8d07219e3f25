"""Devices, host facts, processes, files."""
