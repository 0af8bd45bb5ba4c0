"""Ledger of every GPU second: one state for each, per GPU, per MIG instance and per owner."""
