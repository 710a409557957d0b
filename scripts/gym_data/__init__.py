"""What the data files of the built-in posteriors are made of, and how."""
