"""Networks that are trained together, their inputs and their trainer.

`features` and `inputs` need NumPy only; `grouped`, `trainer` and `checkpoint` need torch.
"""
