"""Time and memory of the engine, as ratios to a floor that was measured in the same run.

Machines differ and are noisy, so a number of milliseconds says little. So each benchmark alternates, in random order,
between the engine and a *floor*, which is the least work that any implementation must do (a bare fork, a fresh
interpreter). Goals apply to the ratio only. `python -m benchmarks` runs all benchmarks; `python -m
benchmarks.warm_call` runs one.
"""
