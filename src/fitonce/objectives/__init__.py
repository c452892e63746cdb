"""F(theta, w), the waist: fits, folds and analyses ask an objective, never what kind of model it is."""
