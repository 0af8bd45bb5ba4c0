.PHONY: check-page
check-page: venv ## Write the tables of docs/check.md from the rules of the health check
	$(BIN)/python -m exporter.reference.check_page docs/check.md

reference: check-page

.PHONY: report-page
report-page: venv ## Write the table of docs/report.md from the options of the report
	$(BIN)/python -m exporter.reference.report_page docs/report.md

reference: report-page

PACKAGE_TOOLS := .cache/package
SHIV := shiv==1.0.8

$(PACKAGE_TOOLS)/bin/shiv:
	@$(PYTHON) -m venv $(PACKAGE_TOOLS)
	@$(PACKAGE_TOOLS)/bin/python -m pip install -q --disable-pip-version-check 'pip>=25.1' hatchling $(SHIV) -c deploy/container/build-constraints.txt

.PHONY: package
package: $(PACKAGE_TOOLS)/bin/shiv ## Build dist/: a Debian package, an RPM where rpmbuild is there, one file that needs only Python
	@$(PACKAGE_TOOLS)/bin/python deploy/package/build.py dist --shiv $(PACKAGE_TOOLS)/bin/shiv

TAG ?=
.PHONY: release
release: $(PACKAGE_TOOLS)/bin/shiv ## Make dist/: wheel, sdist, packages, single file, chart, rules and dashboards, checksums
	@$(PACKAGE_TOOLS)/bin/python -c 'import hatchling' 2>/dev/null || $(PACKAGE_TOOLS)/bin/python -m pip install -q --disable-pip-version-check hatchling -c deploy/container/build-constraints.txt
	@$(PACKAGE_TOOLS)/bin/python deploy/release/artefacts.py dist --shiv $(PACKAGE_TOOLS)/bin/shiv $(if $(TAG),--tag $(TAG))

.PHONY: setup-slurmkit
setup-slurmkit: $(PACKAGE_TOOLS)/bin/shiv ## Fetch what building the packages and testing the kit needs
	@.ci/make/fetch-ruby.sh
	@command -v systemd-analyze >/dev/null || { echo "systemd-analyze is missing: installing it"; apt-get update -q && apt-get install -y -q --no-install-recommends systemd; }

test: setup-slurmkit

.PHONY: walk-installs
walk-installs: venv setup-rules $(PACKAGE_TOOLS)/bin/shiv ## The README's installs, word for word, on a bare Debian and Ubuntu (root, debootstrap)
	$(BIN)/python -m tests.walk.installs $(BARE)
