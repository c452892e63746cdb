"""F(theta, w): the one interface through which fits, folds and analyses see a model."""
