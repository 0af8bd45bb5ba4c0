"""The sampler: one cycle per interval reads the driver, joins owners, advances the ledger, publishes a snapshot."""
