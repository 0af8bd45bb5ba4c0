# Read before the files that use PACKAGE_TOOLS in what a target needs: make expands that as it reads.
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

.PHONY: reproducible
reproducible: $(PACKAGE_TOOLS)/bin/shiv ## Make the artefacts of a release twice, in two folders, and compare them bit by bit
	@.ci/make/reproducible.sh $(PACKAGE_TOOLS)/bin/python $(PACKAGE_TOOLS)/bin/shiv

.PHONY: walk-installs
walk-installs: venv setup-rules $(PACKAGE_TOOLS)/bin/shiv ## The README's installs, word for word, on a bare Debian and Ubuntu (root, debootstrap)
	@command -v rpmbuild >/dev/null || { echo "rpmbuild is missing: installing it"; apt-get update -q && apt-get install -y -q --no-install-recommends rpm; }
	$(BIN)/python -m tests.walk.installs $(BARE)
