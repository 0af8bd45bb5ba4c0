.PHONY: check-page
check-page: venv ## Write the tables of docs/check.md from the rules of the health check
	$(BIN)/python -m exporter.tools.reference.sections docs/check.md

reference: check-page

.PHONY: report-page
report-page: venv ## Write the table of docs/report.md from the options of the report
	$(BIN)/python -m exporter.tools.reference.sections docs/report.md

reference: report-page

.PHONY: setup-slurmkit
setup-slurmkit: $(PACKAGE_TOOLS)/.installed ## Fetch what building the packages and testing the kit needs
	@.ci/make/fetch-ruby.sh
	@command -v systemd-analyze >/dev/null && [ -x /bin/kill ] || { echo "systemd-analyze or kill is missing: installing them"; apt-get update -q && apt-get install -y -q --no-install-recommends systemd procps; }

test: setup-slurmkit
