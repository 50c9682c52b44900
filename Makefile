# Thin on purpose: what a target does is in .ci/, where it can be read and run without make.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z/-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: ## Build Khata and start it with a database of its own (ARGS="…" for khata up)
	@.ci/need-go.sh
	@.ci/need-postgres.sh
	@.ci/build.sh
	@exec bin/khata up $(ARGS)

.PHONY: build
build: ## Build bin/khata
	@.ci/build.sh

.PHONY: test
test: ## Run the tests (ARGS="…" for go test, RACE=0 without the race detector)
	@.ci/need-postgres.sh
	@.ci/need-kafka.sh
	@.ci/need-node.sh
	@.ci/need-chromium.sh
	@.ci/need-finance.sh
	@.ci/test.sh $(ARGS)
	@.ci/js.sh

.PHONY: test-long
test-long: ## Run every test in its long form, storms included
	@.ci/need-postgres.sh
	@.ci/need-kafka.sh
	@.ci/need-node.sh
	@.ci/need-chromium.sh
	@.ci/need-finance.sh
	@KHATA_TEST_LONG=1 .ci/test.sh $(ARGS)
	@.ci/js.sh

.PHONY: storms
storms: ## Run the storms, many clients at once with faults, in their short form
	@.ci/need-postgres.sh
	@.ci/need-kafka.sh
	@.ci/storms.sh $(ARGS)

.PHONY: lint
lint: ## Run the linters over Go and protobuf
	@.ci/lint.sh

.PHONY: generate
generate: ## Write the generated code again, from db/ and proto/
	@.ci/generate.sh

.PHONY: generate/check
generate/check: ## The same, and fail if that changed anything
	@.ci/generate.sh check

.PHONY: proto/breaking
proto/breaking: ## Fail if proto/ breaks clients of the version landed last
	@.ci/proto-breaking.sh

.PHONY: fmt
fmt: ## Lay out Go and protobuf
	@.ci/fmt.sh

.PHONY: clean
clean: ## Remove what the targets above built
	@rm -rf bin coverage.*
