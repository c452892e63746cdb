"""What else one fit's derivatives give: influence, bootstrap, selection, prediction, maps."""
