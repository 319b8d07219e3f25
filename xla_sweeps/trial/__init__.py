"""The parent's side of one trial: runner, conductor, workers, rounds, monitor."""
