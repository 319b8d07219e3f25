"""Frozen values: trial, measurement, record, row."""
