"""Recomputes learning steps of pavlov in float64 from logged batches and the papers' equations."""
