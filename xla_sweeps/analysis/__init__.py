"""Records to intervals, verdicts and differences. Pure."""
