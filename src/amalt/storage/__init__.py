"""Where draws go: memory while a run lasts, files when it is done."""
