.PHONY: diagnosis
diagnosis: venv ## Write the tables of docs/diagnosis.md from the ledger's rules
	$(BIN)/python -m exporter.tools.reference.sections docs/diagnosis.md

reference: diagnosis
