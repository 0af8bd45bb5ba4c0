"""Slurm's accounting (slurmdbd), and the summaries of ended jobs that go back into it."""
