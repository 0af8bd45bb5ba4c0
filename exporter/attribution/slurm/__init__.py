"""Which Slurm job holds which GPU: prolog files, cgroups, slurmctld's answers, environment."""
