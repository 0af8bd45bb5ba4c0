# What the exporter costs, and which series it shows.
.PHONY: performance-page
performance-page: venv ## Write the tables of docs/performance.md from the series profiles
	$(BIN)/python -m exporter.reference.performance_page docs/performance.md

reference: performance-page
