"""What a person sees: results on standard output, progress and warnings on standard error.

The only `import rich`.

Whatever comes from models, errors or files is stripped of control characters here, at the edge.
"""
