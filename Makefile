# make help lists the targets. A fresh machine needs Go, make, bash, git and coreutils; everything else is built
# from the modules under hack/tools into a cache that all checkouts share ($XDG_CACHE_HOME/breakwater). Only make site needs Node.js and npm.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

TOPOLOGY ?= federated
BACKEND ?= local
SEEDS ?= 2000
FROM ?= 1
FUZZTIME ?= 20s
VERSION ?= $(shell git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo devel)

export CGO_ENABLED := 0
export GOFLAGS := -mod=readonly -buildvcs=false

# The folder of a tool module's programs; the first call downloads them, or builds them, which takes minutes and says so.
tool = $$(hack/tools/install $(1))
# The programs of the control planes, and of others that tests run, as they look for them.
define with_control_planes
folders=""; for module in kubernetes etcd kwok $(1); do folder=$(call tool,$$module); folders+="$${folders:+:}$$folder"; done; \
export BREAKWATER_BINARIES="$$folders";
endef

##@ Use it

programs := breakwater breakwater-node kubectl-breakwater breakwater-dev

.PHONY: demo
demo: programs := breakwater breakwater-dev
demo: build ## Run a deletion storm twice, without and with Breakwater, and write demo-report/ (ARGS="--help" for options)
	@$(call with_control_planes) bin/breakwater-dev demo $(ARGS)

.PHONY: federation-up
federation-up: build ## Start a federation with Breakwater to play with (TOPOLOGY=federated|single|mesh, BARE=1 without Breakwater, SHARES=1 with shares)
	@$(call with_control_planes) bin/breakwater-dev up --topology $(TOPOLOGY) $(if $(BARE),--bare) $(if $(SHARES),--shares)

.PHONY: federation-env
federation-env: build ## Print its kubeconfigs, and where kubectl is, for the eval of a shell
	@$(call with_control_planes) bin/breakwater-dev env --topology $(TOPOLOGY)

.PHONY: federation-down
federation-down: build ## Stop it
	@bin/breakwater-dev down --topology $(TOPOLOGY)

.PHONY: terraform-install
terraform-install: ## Put the Terraform provider where terraform init finds it (TF_PLUGIN_MIRROR=~/.terraform.d/plugins)
	@hack/terraform-install "$(VERSION)"

##@ Test it

# What takes minutes: packages that start federations, install charts, run Terraform, or build and start the programs. make test does without
# them, and make test-all runs them.
slow := /charts$$ /cmd/breakwater$$ /cmd/breakwater-dev$$ /terraform-provider/provider$$ /terraform-provider/examples$$ \
	/e2e/harness/federation /e2e/harness/storm$$ /e2e/harness/release$$ /hack/release$$

# Tests against real API servers wait for almost half of the time, so three packages run on two cores. make lint vets the code, so go test does not.
.PHONY: test
test: ## Run the tests of a change: unit and property tests, the simulation, and tests against real API servers
	@$(call with_control_planes) export GOGC=400; go test -vet=off -p 3 -timeout 20m \
		$$(go list work | grep -v $(slow:%=-e %) | grep -v '/e2e\($$\|/[^h]\|/hostile\)')

# Each package below e2e brings up a topology of its own and waits half of the time, so two run at once. Of the others those of the
# Terraform provider take longest, and begin. To collect garbage less often spares Terraform and the control planes a fifth of what they do.

.PHONY: test-all
test-all: ## Run the tests that make test leaves out: charts, Terraform, the programs, end to end
	@$(call with_control_planes,helm kubeconform prometheus terraform terraform-oldest opentofu opentofu-oldest registry krew) export GOGC=400; \
	go test -vet=off -p 2 -timeout 40m $$(go list work | grep $(slow:%=-e %) | sort -r) && \
	go test -vet=off -p 2 -count=1 -timeout 30m $$(go list ./e2e/... | grep -v -e '/e2e/gitops$$' -e /e2e/harness)

# The controllers of Flux and the engine of Argo CD take minutes to build when the Go build cache is cold: make test-all does without them.
gitops_tools := flux flux-source argo-cd controller-gen

.PHONY: e2e e2e-local e2e-kind
e2e: e2e-$(BACKEND) ## Run the end-to-end tests alone, with more accidents than make test-all (ARGS="-run Storm -v"). BACKEND=kind: those of the charts, storms, rollouts and drains, on kind clusters; needs docker (REQUIRE_KIND=1 to fail without it)

# Only TestAccidentsOfGitOps needs what takes minutes to build, so a run of other tests does without it.
e2e-local: gitops_of_run = $(if $(findstring -run,$(ARGS)),$(if $(findstring Accident,$(ARGS))$(findstring GitOps,$(ARGS)),$(gitops_tools)),$(gitops_tools))
e2e-local:
	@$(call with_control_planes,$(gitops_of_run) helm prometheus terraform opentofu) rm -rf real-workloads-report; failed=0; \
	GOGC=400 ACCIDENTS_ALL=1 go test -p 2 -count=1 -timeout 25m $$(go list ./e2e/... | grep -v -e '/e2e/gitops$$' -e /e2e/harness) $(ARGS) || failed=1; \
	if [ -f real-workloads-report/shapes.txt ]; then cat real-workloads-report/shapes.txt; fi; exit "$$failed"

.PHONY: docs-all
docs-all: ## Run what pages show of make itself, which takes minutes; make test-all runs the rest of what they show
	@$(call with_control_planes) DOCS_ALL=1 go test -count=1 -timeout 30m -v -run TestWhatPagesShowOfTheTreeIsSo ./e2e/harness/doctest

.PHONY: e2e-gitops
e2e-gitops: ## Test what GitOps syncs, with the controllers of Flux, Argo CD and cert-manager (ARGS="-run Prune -v")
	@for module in $(gitops_tools) argo-cd-controllers cert-manager external-secrets; do (cd hack/tools/$$module && go mod tidy -diff); done; \
	$(call with_control_planes,$(gitops_tools) argo-cd-controllers cert-manager helm registry) go test -count=1 -timeout 15m ./e2e/gitops $(ARGS)

.PHONY: chart-check
chart-check: ## Check the charts: lint, render, schemas, rights, and what a real apiserver says (ARGS="-run Values -v")
	@$(call with_control_planes,helm kubeconform prometheus) go test -count=1 ./charts/... $(ARGS)

.PHONY: test-oldest
test-oldest: ## Test that the oldest supported Kubernetes accepts CRDs and charts; the first call builds its API server
	@(cd hack/tools/kubernetes-oldest && go mod tidy -diff); \
	$(call with_control_planes,helm kubeconform) export BREAKWATER_BINARIES="$(call tool,kubernetes-oldest):$$BREAKWATER_BINARIES"; \
	go test -count=1 ./charts -run 'APIServer|Policy' $(ARGS)

e2e-kind:
	@folders="$(call tool,kubernetes)"; folders+=":$(call tool,helm):$(call tool,registry)"; \
	E2E_KIND=1 BREAKWATER_BINARIES="$$folders" go test -p 1 -count=1 -v -timeout 60m ./e2e/harness/federation/kind ./e2e/kind $(ARGS)

.PHONY: e2e-node
e2e-node: ## Play the loss of etcd and other disasters with real kubelets, without and with the node guard, and write node-report/; needs docker (REQUIRE_KIND=1 to fail without it)
	@folders="$(call tool,kubernetes):$(call tool,etcd):$(call tool,helm)"; \
	E2E_KIND=1 BREAKWATER_BINARIES="$$folders" go test -count=1 -v -timeout 40m ./e2e/node $(ARGS)

.PHONY: chaos
chaos: build ## Play storms with real faults, validate them from the workers' etcds, write chaos-report/ (ARGS="-list")
	@$(call with_control_planes) go run ./hack/chaos $(ARGS)

.PHONY: first-hour
first-hour: build ## Play the first hour of a user in a fresh cluster, from helm install to a refusal and two outages, and write first-hour-report/ (ARGS="--help")
	@$(call with_control_planes,helm) go run ./hack/firsthour $(ARGS)

# make bench runs the suites of the goals, make bench-all also those of other figures, and those that only fill tables of docs (all-...).
.PHONY: bench bench-all
bench: ## Measure in 30 minutes what has goals, write bench-report/ and print what is met (ARGS="-only e2e" for one suite)
	@$(call with_control_planes,terraform) go run ./hack/bench $(ARGS)

bench-all: ARGS = -all
bench-all: bench ## Run all benchmarks, also of sharding, scheduling and the tables that show how cost grows, which takes more than an hour

.PHONY: sim
sim: ## Play seeds of the simulation, half of them on each of two cores (SEEDS=2000 FROM=1)
	@hack/sim $(SEEDS) $(FROM)

.PHONY: sim-shares
sim-shares: ## Play seeds of the simulation in which cells decide on shares (SEEDS=5000 FROM=700001). It prints the failures last
	@hack/sim $(SEEDS) $(FROM) shares

.PHONY: mutants
mutants: ## Put each known fault into the safety rules and show that the proof catches it: mutants-report/table.md (ARGS="-only PATTERN")
	@$(call with_control_planes) go run ./hack/mutants $(ARGS)

.PHONY: evidence
evidence: ## Compare what a refactoring must not change with what was recorded; differences are in .evidence/ (ARGS=-update to record)
	@hack/evidence $(ARGS)

.PHONY: fuzz-short
fuzz-short: ## Run each fuzz target for a while (FUZZTIME=20s)
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]+).*/\1/p' $$package/*_test.go); do \
			go test -run XXX -fuzz "^$$target$$" -fuzzminimizetime 10x -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

##@ Change it

.PHONY: build
build: ## Build bin/breakwater, bin/breakwater-node, bin/kubectl-breakwater (which is kubectl breakwater) and bin/breakwater-dev
	@GOGC=400 go build -trimpath -ldflags "-s -w -X github.com/breakwater-k8s/breakwater/internal/telemetry/version.Version=$(VERSION)" \
		-o bin/ $(programs:%=./cmd/%)
	@ln -sf kubectl-breakwater bin/kubectl_complete-breakwater

.PHONY: release
release: ## Build everything of a release into release/, check it, and with PUSH=REGISTRY[/PREFIX] push image and charts (ARGS="-platforms linux/amd64")
	@helm="$(call tool,helm)/helm"; krew="$(call tool,krew)/validate-krew-manifest"; \
	cosign=""; if [ -n "$${COSIGN_KEY:-}" ]; then (cd hack/tools/cosign && go mod tidy -diff); cosign="$(call tool,cosign)/cosign"; fi; \
	go run ./hack/release -helm "$$helm" -krew "$$krew" -cosign "$$cosign" -push "$(PUSH)" $(ARGS)

.PHONY: plugin
plugin: ## Build only kubectl breakwater into plugin/: archives, SBOMs, and the manifest for krew (ARGS="-platforms linux/amd64")
	@go run ./hack/release -only plugin -out plugin -version "$(VERSION)" $(ARGS)

.PHONY: image
image: ## Build only the container image into image/image.tar, an OCI archive for amd64 and arm64 (ARGS="-platforms linux/amd64")
	@go run ./hack/release -only image -out image -version "$(VERSION)" $(ARGS)

.PHONY: generate
generate: ## Write what is generated: deep copies, CRDs and their chart, READMEs of charts, documentation of the Terraform provider
	@generate="$(call tool,controller-gen)/controller-gen"; cd api && "$$generate" object crd:generateEmbeddedObjectMeta=false \
		paths=./v1alpha1 output:crd:dir=crds
	@rm -f charts/breakwater-crds/files/*.yaml charts/breakwater/crds/*.yaml && cp api/crds/*.yaml charts/breakwater-crds/files/
	@for file in api/crds/*.yaml; do sed -f hack/crds.sed "$$file" >"charts/breakwater/crds/$${file##*/}"; done
	@$(call tool,helm-docs)/helm-docs --chart-search-root charts --sort-values-order file --log-level warning
	@hack/terraform-docs

.PHONY: references
references: ## Write the pages of the API and the commands into docs/reference, which make site includes
	@go run -trimpath ./hack/reference
	@for program in breakwater breakwater-node kubectl-breakwater; do BREAKWATER_BINARIES= go run -trimpath ./cmd/$$program reference >docs/reference/$$program.md; done

.PHONY: screenshots
screenshots: ## Take the screenshots of the console in docs/images again, of a storm in a federation; needs chromium
	@$(call with_control_planes) folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	REQUIRE_CHROMIUM=1 BREAKWATER_SCREENSHOTS="$$folder" go test -count=1 ./e2e/operate -run '^TestConsoleShowsStorm$$' && \
	cp "$$folder"/console-{fleet,protector}.png docs/images/

.PHONY: site
site: references hack/site/node_modules/.package-lock.json ## Build the documentation as a site in site/, and check its links; needs npm (npm run preview in hack/site serves it)
	@npm run --silent --prefix hack/site build

hack/site/node_modules/.package-lock.json: hack/site/package-lock.json
	@npm ci --prefix hack/site --ignore-scripts

.PHONY: lint
lint: ## Check style, import rules and words
	@go run ./hack/words
	@$(call tool,golangci-lint)/golangci-lint run --allow-parallel-runners $$(go list -m -f '{{.Dir}}/...')

.PHONY: verify
verify: ## Check that modules are tidy, generated files current, the format right and lint clean, on a copy of the tree
	@hack/verify

.PHONY: weight
weight: ## Count lines, files, packages, words of docs and requirements, and write weight-report/
	@hack/weight

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what the programs call; skipped without its database (REQUIRE_VULNCHECK=1 to fail then)
	@hack/vulncheck

.PHONY: tools
tools: ## Put all tools and control planes into the cache
	@for module in hack/tools/*/; do hack/tools/install "$$(basename "$$module")"; done

.PHONY: tool-sums
tool-sums: ## Pin the sums of the released control planes in the versions of hack/tools; needs internet access
	@go run ./hack/fetch -update

.PHONY: clean
clean: ## Remove what was built here; the shared cache stays
	@rm -rf bin .evidence image plugin release release.partial site hack/site/node_modules hack/site/.vitepress/.temp demo-report bench-report chaos-report first-hour-report real-workloads-report weight-report mutants-report coverage.out

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
