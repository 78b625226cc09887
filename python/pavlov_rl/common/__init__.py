"""Names that scripts take from `stable_baselines3.common`, in modules of the same names."""
