"""Networks that are trained together, and their trainer; all but `schedule` needs torch."""
