"""User data: sequences, labelled tokens, graphs, tables in files, named data sets."""
