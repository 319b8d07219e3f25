"""Show results: terminal, page, W&B runs and reports, exported files."""
