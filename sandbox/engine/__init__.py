"""One call: spec, plan, `CallResult`, outcome."""
