.PHONY: diagnosis
diagnosis: venv ## Write the tables of docs/diagnosis.md from the ledger's rules
	$(BIN)/python -m exporter.reference.diagnosis_page docs/diagnosis.md

reference: diagnosis
