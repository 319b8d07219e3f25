"""Functions of `import xla_sweeps`: each runs the command line in a process of its own."""
