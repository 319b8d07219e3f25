"""Frozen values: trial, modes, backends, measurement, record, row."""
