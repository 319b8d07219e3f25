"""The local page: comparison rows as one self-contained HTML file that opens offline.

Rows in, text out.
"""
