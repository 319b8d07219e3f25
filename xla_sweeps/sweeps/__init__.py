"""A sweep: definition, trials, plan, driver, launchers."""
