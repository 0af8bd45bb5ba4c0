.PHONY: check-page
check-page: venv ## Write the tables of docs/check.md from the rules of the health check
	$(BIN)/python -m exporter.check.table docs/check.md

reference: check-page

.PHONY: report-page
report-page: venv ## Write the table of docs/report.md from the options of the report
	$(BIN)/python -m exporter.report.table docs/report.md

reference: report-page
