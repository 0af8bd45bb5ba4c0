.PHONY: check-page
check-page: venv ## Write the tables of docs/check.md from the rules of the health check
	$(BIN)/python -m exporter.check.table docs/check.md

reference: check-page
