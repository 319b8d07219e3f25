"""The terminal: results on standard output, progress and warnings on standard error.

The only code that imports rich. Text from models, errors and files is stripped of control
characters here.
"""
