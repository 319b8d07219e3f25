"""`conf/` and the command line as checked settings; the model catalog."""
