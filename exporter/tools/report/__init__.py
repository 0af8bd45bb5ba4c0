"""`gpu-exporter report`: what a job, a user or everybody made of the GPUs, asked of a Prometheus."""
