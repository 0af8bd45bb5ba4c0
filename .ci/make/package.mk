# Read before the files that use PACKAGE_TOOLS in what a target needs: make expands that as it reads.
PACKAGE_TOOLS := .cache/package
BUILDERS := deploy/package/requirements.txt

$(PACKAGE_TOOLS)/.installed: .ci/make/package.mk $(BUILDERS)
	@echo "== What builds the packages in $(PACKAGE_TOOLS)"
	@$(PYTHON) -m venv $(PACKAGE_TOOLS)
	@.ci/make/pip.sh $(PACKAGE_TOOLS)/bin/python -m pip install -q --disable-pip-version-check --require-hashes --only-binary :all: -r $(BUILDERS)
	@touch $@

.PHONY: package
package: $(PACKAGE_TOOLS)/.installed ## Build dist/: a Debian package, an RPM, one file that needs only Python
	@TOOLS=$(PACKAGE_TOOLS) deploy/package/build.sh dist

TAG ?=
.PHONY: release
release: $(PACKAGE_TOOLS)/.installed ## Make dist/: wheel, sdist, packages, single file, chart, rules and dashboards, checksums
	@TOOLS=$(PACKAGE_TOOLS) deploy/release/build.sh dist $(TAG)

.PHONY: reproducible
reproducible: $(PACKAGE_TOOLS)/.installed ## Make the artefacts of a release twice, in two folders, and compare them bit by bit
	@.ci/make/reproducible.sh $(PACKAGE_TOOLS)

.PHONY: walk-installs
walk-installs: venv setup-rules $(PACKAGE_TOOLS)/.installed ## The README's installs, word for word, on a bare Debian and Ubuntu (root, debootstrap)
	$(BIN)/python -m tests.walk.installs $(BARE)
