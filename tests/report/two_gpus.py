"""Two GPUs and two phases, one of them in two rounds: what a part of a trace, and a figure of it, are tested on."""

from tests.frames import events, spans

ROWS = events(
    ("gpu:0", "compute", 10, 40),
    ("gpu:1", "compute", 30, 60),
    ("gpu:0", "collective", 35, 50),
    ("gpu:1", "memcpy", 80, 90, "copy", "H2D"),
    ("gpu:0", "compute", 95, 110),
)
PHASES = spans(("warm", 5, 20), ("both", 30, 45), ("both", 80, 100))
