"""Measuring a stand-in against the original: metrics, their catalogue, pictures and the report."""
