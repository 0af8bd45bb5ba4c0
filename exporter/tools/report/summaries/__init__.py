"""Slurm's accounting of jobs (slurmdbd), and the worker on the controller that gives each ended job its summary."""
