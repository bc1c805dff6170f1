"""How fast and how small the engine is, told as ratios against a floor that was measured in the same run.

Machines differ and are noisy, so a number of milliseconds says little. Each benchmark therefore takes turns, in random
order, between the engine and a *floor*: the least that anybody could do (a bare fork; a fresh interpreter). Only
their ratio is held to a goal. `python -m benchmarks` runs all; `python -m benchmarks.warm_call` one.
"""
