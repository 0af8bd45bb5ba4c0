"""The subcommands of `gpu-exporter`, one module each: `run(arguments) -> exit status`."""
