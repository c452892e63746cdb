"""Further uses of one fit's derivatives: influence, bootstrap, selection, prediction, maps."""
