"""Code that runs for one call: its guard and the process of its tool."""
