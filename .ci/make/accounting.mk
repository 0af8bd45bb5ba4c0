.PHONY: accounting
accounting: venv setup-rules ## A thousand jobs of 5 to 300 s: Waste, digest and summaries within 1 % of the truth (two minutes; JOBS=1000 SEED=1)
	$(BIN)/python -m tests.replay.accounting --jobs $(or $(JOBS),1000) --seed $(or $(SEED),1)
