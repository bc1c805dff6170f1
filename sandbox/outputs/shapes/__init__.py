"""Forms: how an output of each type is fitted into its budget, a file for each way of doing it.

A form gets what is known of the text, the budget and the notice. It gives a text that without the notice is at most as
long as the budget, and says how many characters of the original are in it. It is asked only when the text does not fit.
`sandbox.outputs.shaping` holds the table of all types.
"""
