# The chart and the image: generated files, and what their tests need.
MONITORING_MODELS := cloudcoil-models-prometheus-operator==0.80.1.0
MONITORING_SCHEMAS := .cache/monitoring-schemas

.PHONY: chart
chart: venv ## Write the chart to build/gpu-exporter, its schema and README, and deploy/kubernetes
	$(BIN)/python -m helm.generate

# The models have an environment of their own: they bring a pytest plugin.
$(MONITORING_SCHEMAS)/PrometheusRule.json: helm/monitoring_schemas.py .ci/make/chart.mk
	@echo "== Schemas of the Prometheus operator in $(MONITORING_SCHEMAS)"
	@$(PYTHON) -m venv .cache/monitoring-models
	@.cache/monitoring-models/bin/pip install -q --disable-pip-version-check $(MONITORING_MODELS)
	@.cache/monitoring-models/bin/python $< $(MONITORING_SCHEMAS)
	@rm -r .cache/monitoring-models

.PHONY: setup-chart
setup-chart: venv $(MONITORING_SCHEMAS)/PrometheusRule.json ## Fetch the schemas that the chart's tests check against

test: setup-chart

.PHONY: setup-e2e-kubernetes
setup-e2e-kubernetes: venv setup-rules setup-image ## Build Kubernetes, Helm, the Prometheus operator and Flux's helm-controller; fetch containerd, runc and etcd
	@.ci/make/fetch-kubernetes.sh
	@.ci/make/fetch-kinds.sh
	@.ci/make/fetch-flux.sh

E2E ?= install adverse toolkit claims gitops flux alerting networks kinds health scaling eviction
.PHONY: e2e-kubernetes
e2e-kubernetes: setup-e2e-kubernetes ## The chart on a real one-node cluster with fake GPUs (root, Go, minutes)
	$(BIN)/pytest -x -s -p no:xdist $(E2E:%=tests/e2e/kubernetes/%.py)

.PHONY: setup-image
setup-image:
	@{ command -v buildah && command -v debootstrap; } >/dev/null || { echo "buildah or debootstrap is missing: installing them"; apt-get update -q && apt-get install -y -q --no-install-recommends buildah debootstrap debian-archive-keyring; }

IMAGE ?= localhost/gpu-exporter:dev
.PHONY: image
image: setup-image ## The container image for amd64 and arm64 as an OCI archive in dist/ (root; IMAGE=registry.example.com/gpu-exporter:0.1.0)
	@deploy/container/build.sh dist/gpu-exporter.tar $(IMAGE) linux/amd64 linux/arm64

.PHONY: test-image
test-image: venv setup-image ## Build the image twice, compare, and run the program from it (root, ten minutes)
	$(BIN)/pytest -p no:xdist tests/image/contents.py

.PHONY: licences
licences: venv image ## Write docs/dev/licences.md from what the image's parts say of themselves (root)
	$(BIN)/python -m deploy.container.licences dist/gpu-exporter.tar docs/dev/licences.md
