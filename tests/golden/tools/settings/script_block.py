# /// script
# requires-python = ">=3.11"
# dependencies = ["requests==2.32.3"]
# [tool.sandbox]
# policy = "offline"
# output_type = "json"
# return_char_limit = 4000
# enable_parallel_execution = true
# timeout = "30s"
# [tool.other]
# anything = 1
# ///
def f() -> None:
    """Do it."""
