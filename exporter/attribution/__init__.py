"""Who holds each GPU: the pod, Slurm job, container or unit that a process or an allocation belongs to."""
