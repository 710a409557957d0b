"""The experiments of the paper: ``amalt bench paper`` runs them and sets them beside its tables.

`design` says what is run, `runs` drives one process for each run (`one`), `measure` turns a run
into figures, `results` keeps and aggregates them, `table` prints both tables. `studies` makes the
data of two more figures, one of them with a `grid` search, and `figures` draws all.
"""
