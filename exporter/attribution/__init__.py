"""Owners of processes and allocations: pods, Slurm jobs, containers and units."""
