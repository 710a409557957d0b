"""Where draws go."""
