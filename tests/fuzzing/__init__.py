"""Random inputs, judged by code that shares nothing with the library; see CONTRIBUTING.md.

An input is a recipe: a dict of plain Python values, drawn by `strategies`, which a judge turns into
calls of the library. What comes of it is a right answer, a refusal in one sentence, or a failure.
"""
