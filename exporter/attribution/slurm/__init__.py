"""Slurm's jobs and their GPUs, by prolog files, cgroups, slurmctld and environments."""
