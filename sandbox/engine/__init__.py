"""The engine: one call: spec, plan, `CallResult`, outcome."""
