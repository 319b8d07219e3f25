"""The results folder: records, rows, filters, imports."""
