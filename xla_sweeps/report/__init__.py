"""What people see: terminal, page, W&B, reports, files."""
