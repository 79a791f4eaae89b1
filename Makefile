# Everything a contributor runs. Needs Python 3.11+, pip, git and make; the rest comes from requirements.lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard shared/*/pyproject.toml services/*/pyproject.toml deploy/*/pyproject.toml))
STAMP := $(VENV)/.setup-stamp
# Processes of one checkout share their compiled code, whatever the environment says: starting a platform takes ten of them.
export PYTHONDONTWRITEBYTECODE :=
# What has the API server: "embedded", or "real" for the programs that make kube-assets builds.
CLUSTER ?= embedded
COMMA := ,
# Runs pytest, and a failed test once more by itself if it starts real programs: docs/development/flaky.md. Before -- stand
# variables of the tests.
LANE = PYTHONPATH=tests $(BIN)/python -m support.repeated lane "$@ $(MAKEOVERRIDES)"
# Processes that run tests.
WORKERS ?= $(shell expr 6 + $$(getconf _NPROCESSORS_ONLN))

.PHONY: test-gallery test-clock test-downloads kube-assets node-assets node node-down test-node external-crds setup demo up test test-unit chaos test-apiserver test-e2e test-real used-permissions flaky test-registry test-alerts test-console test-replay test-local test-upgrade compatibility lint format crds crds-check chart chart-check reference manifests image-packages images engine-images images-table images-push images-check test-built-images image-trees test-images sbom release test-release bench costs docs mutants spec-coverage lock clean

setup: $(STAMP)

$(STAMP): requirements.lock $(addsuffix /pyproject.toml,$(PACKAGES))
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; set PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(addprefix -e ,$(PACKAGES))
	@$(BIN)/python -m compileall -q shared services deploy
	@touch $@

demo: setup
	@exec $(BIN)/python -m aim_local demo --parent $$PPID --cluster $(CLUSTER) $(if $(FOLDER),--folder "$(FOLDER)")

# Against CLUSTER, or any other: make up KUBECONFIG=path, where no actors play unless ACTORS names some.
up: setup
	@exec $(BIN)/python -m aim_local up --parent $$PPID --cluster $(CLUSTER) $(if $(FOLDER),--folder "$(FOLDER)") \
	  $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig "$(KUBECONFIG)") $(if $(ACTORS),--actors "$(ACTORS)")

# The longest first, so that no core is left alone with one at the end. Most of them wait most of the time: for a lease, a
# retry, the end of a process. So there are more workers than cores. End to end: the main job, and its processes killed;
# make test-e2e has the rest. In a new clone the tests are compiled first, once: each worker would compile all of them.
WAITING := tests/e2e/test_demo_path.py tests/e2e/test_killed_services.py tests/chaos tests/integration tests/controlplane
COMPILED = $(BIN)/python -m pytest --collect-only -qq $(1) >/dev/null 2>&1
test: setup
	@test -d tests/unit/__pycache__ || { $(call COMPILED,tests/unit) & $(call COMPILED,$(WAITING)); wait; }
	$(LANE) -- --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
	  $(WAITING) tests/unit

# Services whose wall clock is set, by Debian's libfaketime: a small one, and all five of a platform.
test-clock: setup
	$(LANE) -- tests/clock

# The downloader as a process, with a Hub and S3 stores that fail in every way.
test-downloads: setup
	$(LANE) -- --numprocesses $(WORKERS) --dist loadfile tests/downloads

# Plain data only: no process is started, no port is opened.
test-unit: setup
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal tests/unit

# Everything that can go wrong around the platform, as long as SECONDS allows: docs/development/chaos.md.
# SEED repeats a run, ONLY=R6,R8 or ONLY=R1/serving-7 selects; CLUSTER=real takes real programs. CLUSTER=node: what goes
# wrong on a real node, in ten minutes; ONLY=kubelet,registry selects by the names of the tests.
chaos: setup
ifeq ($(CLUSTER),node)
	$(BIN)/python -m pytest tests/node/test_node_failures.py tests/node/test_node_failures_slow.py \
	  $(if $(ONLY),-k "$(subst $(COMMA), or ,$(ONLY))")
else
	@PYTHONPATH=tests $(BIN)/python -m matrix --cluster $(CLUSTER) \
	  $(if $(filter command line environment,$(origin SECONDS)),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))
endif

# The suite of API behaviours against a real kube-apiserver with etcd, which make kube-assets builds.
test-apiserver: setup
	$(LANE) AIM_TEST_APISERVER=real -- tests/controlplane

# Against Debian's docker-registry: from the PATH, or its package unpacked under ~/.cache/aim-engine; nothing is installed.
test-registry: setup
	@PYTHONPATH=tests $(BIN)/python -m support.docker_registry
	$(LANE) -- tests/registry

# Each default alert in a real Prometheus under a planted fault: from the PATH, or Debian's package unpacked under
# ~/.cache/aim-engine; nothing is installed. About three minutes.
test-alerts: setup
	@PYTHONPATH=tests $(BIN)/python -m support.prometheus
	$(LANE) -- --numprocesses 3 tests/alerts

# The pages of the console in the Chromium of the PATH; AIM_SCREENSHOTS=folder keeps what they look like.
test-console: setup
	@PYTHONPATH=tests $(BIN)/python -m support.browser
	$(LANE) -- tests/console

# The log of one whole run, replayed with changes planted in the decision modules; about a minute.
# The simulated cluster and its programs, what repeats tests, and completion in shells.
test-local: setup
	$(LANE) -- --numprocesses $(WORKERS) --dist loadfile tests/local

test-replay: setup
	$(LANE) -- tests/replay

# From the former release (tests/upgrade/PREVIOUS, out of the history of this repository) to this one and back, service by
# service, under load; a minute.
test-upgrade: setup
	$(LANE) -- tests/upgrade

# What of this release the former one, its objects and its users cannot live with: definitions, streams, messages. Seconds.
compatibility: setup
	@PYTHONPATH=tests $(BIN)/python -m compatibility

# The end-to-end tests alone; CLUSTER=real runs them against real programs. CONTAINERS=1: services and downloads are
# containers of their images; with CLUSTER=real, of the pods of the chart that helm installs.
ifeq ($(CLUSTER),node)
test-e2e: test-node
else
test-e2e: $(if $(CONTAINERS),image-trees,setup)
	@rm -rf $(USED)/e2e
	$(LANE) USED_PERMISSIONS=$(USED)/e2e CLUSTER=$(CLUSTER) $(if $(CONTAINERS),AIM_TEST_IMAGES=$(TREES)) -- \
	  $(if $(filter embedded,$(CLUSTER)),--numprocesses $(WORKERS) --dist loadfile) tests/e2e \
	  $(if $(CONTAINERS),tests/containers/test_containers.py $(if $(filter real,$(CLUSTER)),tests/containers/test_installed_check.py tests/containers/test_hooks.py))
endif

# Failures as users and environments cause them: the cause that `aim why` names, and its remedy, typed. Three minutes.
test-gallery: setup
	$(LANE) CLUSTER=$(CLUSTER) -- $(if $(filter embedded,$(CLUSTER)),--numprocesses 4) tests/gallery

# On a real node, with the platform as the chart installs it: docs/development/node-lane.md. A node that runs is used and
# stays. It needs make node-assets, and the images of make images engine-images BASE=local. ONLY="files" selects; SHORT=1: the
# main job, one scale-up, the NetworkPolicies and the uninstallation.
SHORT_NODE := tests/node/test_node_main_job.py \
  tests/node/test_node_autoscaling.py::test_load_on_the_engine_adds_a_second_pod_and_its_end_removes_it \
  tests/node/test_node_policies.py tests/node/test_zz_uninstall.py
test-node: setup
	$(LANE) -- $(or $(ONLY),$(if $(SHORT),$(SHORT_NODE)),tests/node --ignore tests/node/test_node_failures_slow.py)

# What only a real control plane can show: webhooks, controllers, dry-run of everything that the services write.
# KEDA=1 adds KEDA's operator, which make kube-assets KEDA=1 builds.
test-real: setup
	@rm -rf $(USED)/real
	$(LANE) USED_PERMISSIONS=$(USED)/real -- $(if $(KEDA),,--ignore tests/real/test_real_keda.py) tests/real

# Fails for a permission of the chart's roles that neither make test-real nor make test-e2e CLUSTER=real used, by the audit
# logs of their API servers. What was refused has failed those already.
USED := $(CURDIR)/.run/used-permissions
used-permissions: setup
	@PYTHONPATH=tests $(BIN)/python -m support.used_permissions $(USED)

# What passed only when it was repeated, in the last run of each lane: TIMES times more, beside one busy process per core.
flaky: setup
	@PYTHONPATH=tests $(BIN)/python -m support.repeated_load $(TIMES)

lint: setup
	$(BIN)/ruff check --no-cache .
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m aim_packaging chart --check deploy/charts
	$(BIN)/python -m aim_packaging reference --check docs/reference
	$(BIN)/python -m aim_packaging image-packages --check

# What an AIMService costs in requests, cold, one by one and at once; fails when a count is over its goal. CLUSTER=fakes:
# against a real API server. Runs alone: on a loaded machine, what is told late for a second is told after all.
BURSTS := 20,100
costs: setup
	env -u CLUSTER PYTHONPATH=tests $(BIN)/python -m bench --costs --cluster $(CLUSTER) --sizes $(or $(SIZES),$(BURSTS))

# CLUSTER=real: with KServe; CLUSTER=fakes: a real API server, everything else answers in 20 ms; RUNS=5 shows the range.
bench: setup
	env -u CLUSTER PYTHONPATH=tests $(BIN)/python -m bench --cluster $(CLUSTER) $(if $(SIZES),--sizes $(SIZES)) $(if $(RUNS),--runs $(RUNS))
ifeq ($(CLUSTER),embedded)
	PYTHONPATH=tests $(BIN)/python -m bench.storage
	PYTHONPATH=tests $(BIN)/python -m bench.downloads
endif

# The documentation as a site in .run/site; fails on a page that no other leads to and on a link between pages that leads
# nowhere. INTO=folder puts it beside the documentation of other releases, REPOSITORY=URL links each page to its source.
docs: setup
	$(if $(REPOSITORY),AIM_DOCS_REPOSITORY="$(REPOSITORY)") $(BIN)/sphinx-build -q -W --keep-going -b html docs .run/site
	@$(if $(INTO),$(BIN)/python -m aim_packaging site .run/site "$(INTO)",echo ".run/site/index.html")

# Small changes in the modules that decide, as many as ten minutes allow, and whether the unit tests notice. SEED repeats
# a sample, ONLY=aim_routing (any part of a path) selects modules.
mutants: setup
	@PYTHONPATH=tests $(BIN)/python -m mutation $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

# Programs of a real cluster, built with Go into a folder outside the repository; KEDA=1 adds KEDA's operator.
kube-assets: setup
	@nice -n 5 $(BIN)/python -m aim_local.assets build

# What a node needs besides: Debian's packages, kubelet, network, DNS, storage, a gateway, KEDA; docs/development/node-lane.md.
node-assets: setup
	@$(BIN)/python -m aim_local.node packages
	@nice -n 5 $(BIN)/python -m aim_local.assets build --node

# A Kubernetes of real programs on this machine, whose pods are containers; it runs until make node-down.
node: setup
	@$(BIN)/python -m aim_local.node up

node-down: setup
	@$(BIN)/python -m aim_local.node down

# The definitions of KServe, Gateway API and KEDA for the embedded control plane, from the same modules.
external-crds: kube-assets
	$(BIN)/python -m aim_local.assets crds deploy/apiserver/embedded_apiserver/crds

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

crds: setup
	$(BIN)/python -m aim_domain.crd deploy/crds

crds-check: setup
	$(BIN)/python -m aim_domain.crd --check deploy/crds

# Permissions and broker users, from what the services declare, into the chart.
chart: setup
	$(BIN)/python -m aim_packaging chart deploy/charts

chart-check: setup
	$(BIN)/python -m aim_packaging chart --check deploy/charts

# The reference pages and pictures of the documentation, from the code.
reference: setup
	$(BIN)/python -m aim_packaging reference docs/reference

# The chart as plain manifests, by the helm that make kube-assets builds.
manifests: setup
	$(BIN)/python -m aim_packaging manifests --helm "$$($(BIN)/python -m aim_local.assets path helm)" deploy/manifests

# Which packages of requirements.lock go into each image; for Linux, so run it there.
image-packages: setup
	$(BIN)/python -m aim_packaging image-packages

# The images of the services, the downloader and the command line, or ONLY some, into .run/oci: docs/development/images.md.
# BUILDER is buildah, podman or docker, BASE an image of a registry by digest, or "local" for one of Debian's packages.
BUILDER ?=
BUILD_BASE ?=
MIRROR ?=
IMAGES := $(BIN)/python -m aim_packaging images
IMAGE_OPTIONS = --builder "$(BUILDER)" --base "$(BASE)" --build-base "$(BUILD_BASE)" --mirror "$(MIRROR)"
images: setup
	@$(IMAGES) build $(ONLY) $(IMAGE_OPTIONS) $(if $(REPOSITORY),--repository "$(REPOSITORY)") $(if $(TAG),--tag "$(TAG)")

# The simulated AIM images of the demo catalogue, and the broker's image, into the same folder: for a node without a
# registry in reach.
engine-images: setup
	@$(IMAGES) engines --builder "$(BUILDER)" --base "$(BASE)" --mirror "$(MIRROR)"

# What each image costs to pull, and what of it others have too.
images-table: setup
	@$(IMAGES) table

# Pushes what is built to a registry that speaks plain HTTP: make images-push TO=10.77.0.1:5000
images-push: setup
	@$(IMAGES) push --to "$(TO)"

# One image twice, each time from nothing: fails where the two have different digests. ONLY selects which.
images-check: setup
	@$(IMAGES) check $(ONLY) $(IMAGE_OPTIONS)

# The images as they were built: settings, contents, engines, and pushing them to a real registry. Needs root and buildah.
test-built-images: setup
	@PYTHONPATH=tests $(BIN)/python -m support.built_images
	$(LANE) -- tests/images/test_built_images.py

# The file trees of the images, built from the lock as the Containerfile does it, and what runs from them.
test-images: setup
	$(LANE) -- --numprocesses 3 --dist loadfile tests/images --ignore tests/images/test_built_images.py

TREES := $(CURDIR)/.run/images
image-trees: setup
	PYTHONPATH=tests $(BIN)/python -m support.images $(TREES)

# Bills of materials (SPDX) of the images, into .run/sbom.
sbom: setup
	$(BIN)/python -m aim_packaging sbom .run/sbom

# Everything that a release has, of the commit that is checked out, into dist/VERSION: make release VERSION=0.1.0. With images
# where make images TAG=VERSION built them. KEY=file signs the checksums, REPOSITORY is that of the images.
release: setup
	@$(BIN)/python -m aim_packaging release "$(VERSION)" $(if $(REPOSITORY),--repository "$(REPOSITORY)") $(if $(KEY),--key "$(KEY)")

# A release in a temporary folder, whose command is installed in both ways and whose checksums are verified.
test-release: setup
	$(LANE) -- tests/release

spec-coverage: setup
	$(BIN)/python tests/spec_coverage.py

lock: setup
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 requirements.in -o requirements.lock

clean:
	rm -rf $(VENV) .run .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
