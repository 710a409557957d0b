"""Who drives: compiled blocks of many transitions, and the host loop that calls them."""
