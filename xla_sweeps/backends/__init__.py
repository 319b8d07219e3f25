"""The frameworks that run models, one package each; none imports another, nothing imports them."""
