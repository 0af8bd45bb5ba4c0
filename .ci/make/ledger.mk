.PHONY: diagnosis
diagnosis: venv ## Write the tables of docs/diagnosis.md from the ledger's rules
	$(BIN)/python -m exporter.tools.reference.sections docs/diagnosis.md

reference: diagnosis

.PHONY: definitions
definitions: venv ## Write the table of docs/definitions.md from the definitions
	$(BIN)/python -m exporter.tools.reference.sections docs/definitions.md

reference: definitions
