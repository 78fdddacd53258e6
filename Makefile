# Everything a developer runs. `make` alone lists it. Go is the only thing that has to be there; the rest is found, built or
# fetched below .state. CGO is off so that no C compiler is needed and every binary is static.

export CGO_ENABLED ?= 0

TOOL = cd internal/tools && go tool -n
DEV  = go run ./dev

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## bring everything up, drive orders through it with faults on the way, stay up until Ctrl-C
	$(DEV) demo

.PHONY: test
test: ## all tests, with the PostgreSQL, Temporal and stripe-mock they need
	$(DEV) test

.PHONY: test-long
test-long: ## the same tests in full size: every switch of the simulators, the whole storm
	$(DEV) test --long

.PHONY: race
race: ## all tests, looking for data races (needs a C compiler)
	$(DEV) test --race

.PHONY: mutants
mutants: ## plant bugs in the gateways, one at a time; the conformance suite must catch each
	$(DEV) mutants

.PHONY: lint
lint: ## formatter, vet, linters, workflowcheck, sqlc diff
	.ci/run lint

.PHONY: gate
gate: ## what a change must pass: lint and test
	.ci/run

.PHONY: generate
generate: ## write what is generated: store/sqlcgen from the SQL
	sqlc=$$($(TOOL) sqlc) && cd store && "$$sqlc" generate

.PHONY: fmt
fmt: ## format every Go file
	gofumpt=$$($(TOOL) gofumpt) && "$$gofumpt" -w $$(git ls-files '*.go')

.PHONY: setup
setup: ## migrate the database and register search attributes and schedules (DATABASE_URL, TEMPORAL_ADDRESS)
	go run ./starter setup

.PHONY: bench
bench: bench-reconcile ## measure throughput and latency on this machine, and the comparison of long books
	go run ./bench

.PHONY: bench-reconcile
bench-reconcile: ## compare 100,000 payments of a provider's list with ours: right findings, bounded memory, pages a second
	go run ./bench/reconcile

.PHONY: tools
tools: ## build the pinned tools (minutes the first time) and print where they are
	$(DEV) tools

.PHONY: build
build: ## static worker, starter and sandbox in bin/
	go build -trimpath -o bin/ ./worker ./starter ./sandbox

.PHONY: clean
clean: ## remove what runs made: clusters, logs, binaries (a kept demo database too)
	rm -rf .state bin
