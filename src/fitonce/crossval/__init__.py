"""Every fold from one fit: weights to parameters to held-out losses, and how far to trust them."""
