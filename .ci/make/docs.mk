# The site of the documentation, with an environment of its own.
DOCS := .cache/docs

$(DOCS)/.installed: pyproject.toml
	@echo "== mkdocs-material, mike, lychee and zizmor in $(DOCS)"
	@$(PYTHON) -m venv $(DOCS)
	@.ci/make/pip.sh $(DOCS)/bin/pip install -q --disable-pip-version-check 'pip>=25.1'
	@.ci/make/pip.sh $(DOCS)/bin/pip install -q --disable-pip-version-check --group docs
	@touch $@

.PHONY: docs
docs: $(DOCS)/.installed ## Build the site of the documentation in .cache/site, and fail on a broken link or anchor
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo "== .cache/site/index.html"

.PHONY: lint-docs
lint-docs: $(DOCS)/.installed ## Links and anchors of all pages (lychee), and the security of the workflows (zizmor)
	@$(DOCS)/bin/lychee --offline --include-fragments --no-progress '*.md' 'docs/**/*.md' 'deploy/**/*.md'
	@$(DOCS)/bin/zizmor --offline --no-progress .github

.PHONY: hooks
hooks: ## Check the subject of each commit that you make here
	git config core.hooksPath .ci/hooks

.PHONY: recording
recording: $(DOCS)/.installed ## Record the tour of a running `make demo` as docs/images/demo.gif (chromium)
	@$(DOCS)/bin/python .ci/docs/recording.py docs/images/demo.gif

.PHONY: walk-pages
BARE ?= .cache/bare
walk-pages: venv setup-rules ## The shell blocks of the user pages, word for word, in bare machines (root, debootstrap; PAGE=docs/tutorials/first-node.md)
	$(BIN)/python -m tests.walk.pages $(BARE) $(PAGE:%=--page %)
