"""Where every GPU second went: one state for each, per GPU, per MIG instance and per owner."""
