# Targets are listed by `make`: a name, two hashes, what it does.

VERSION ?= $(shell scripts/version.sh)
OUT     ?= berth
PROVER  ?= dist/berth-prove
# They leave out what is not used of urfave/cli: manual pages, which cost every start a millisecond, and suggestions.
LEAN     = urfave_cli_no_docs,urfave_cli_no_suggest
COMMIT  ?= $(shell scripts/version.sh commit)
LDFLAGS  = -s -w -X berth/internal/cli.version=$(VERSION) -X 'berth/internal/cli.commit=$(COMMIT)'
VULN     = golang.org/x/vuln/cmd/govulncheck@v1.1.4

# Tags of tests that make test does not run. No file is left out by one.
TAGS     = alerts,programs,simulation,brokers

# For how long make fuzz feeds one test.
FUZZTIME ?= 20s

# Flags for test/bench.
BENCH ?=

# Flags for test/efficiency.
EFFICIENCY ?=

# For how long make interop contends.
INTEROP_TIME ?= 10m

# The versions of RabbitMQ that make clusters is about.
CLUSTERS ?= 4.3

# Flags for test/examples.
EXAMPLES ?=

# How many seeds of each kind of lock make simulate takes.
SEEDS ?= 10

# What make mutants breaks, and its flags; nothing: all that it knows.
MUTANTS ?=

.PHONY: help build prover demo deps test fuzz mutants simulate race alerts programs test-brokers interop faults clusters prove prove-all prove-mutants model bench efficiency examples check vuln docs picture packages clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 16

build: ## build ./berth
	CGO_ENABLED=0 go build -trimpath -tags $(LEAN) -ldflags "$(LDFLAGS)" -o $(OUT) .

prover: ## build dist/berth-prove, which judges any lock: commands or libraries
	CGO_ENABLED=0 go build -trimpath -tags $(LEAN) -ldflags "-s -w -X main.release=$(VERSION)" -o $(PROVER) ./prover

demo: build ## show a lock going from one holder to the next
	scripts/demo.sh

deps: ## install what the tests need (Debian, as root), or say what is missing
	@scripts/deps.sh

# A program with the race detector sleeps for a second at its end otherwise, of which the tests start and await many.
test race test-brokers: export GORACE = atexit_sleep_ms=0

test: ## run everything that has to pass: four to eight minutes on 2 cores
	@echo "test: this takes four to eight minutes on 2 cores"
	@$(MAKE) --no-print-directory deps check
	@# What several packages build for their tests, into the cache: they would compile it beside each other.
	GOGC=400 CGO_ENABLED=0 go build -tags $(LEAN) -o /dev/null . ./prover ./examples/single-consumer
	@# Without vet, of which check has just run all. Most of them wait: more than there are processors, the longest first.
	go test -race -vet=off -p 4 -timeout 10m ./lock/rabbit ./test/e2e ./internal/guard ./...
	CGO_ENABLED=0 go test -tags simulation -vet=off ./test/simulation -run Seeds -seeds 20

fuzz: ## feed each fuzz test inputs that are not known yet, 20 s each: FUZZTIME=10m make fuzz
	@status=0 && for package in $$(go list -f '{{.Dir}}' ./...); do \
		grep -qs '^func Fuzz' "$$package"/*_test.go || continue; \
		names=$$(go test -list '^Fuzz' "$$package") || { echo "$$names"; exit 1; }; \
		for name in $$(echo "$$names" | grep '^Fuzz'); do \
			echo "$$package $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" || status=1; \
		done; \
	done; exit $$status

mutants: ## break one decision after the other, and list what no test notices: make mutants MUTANTS="-p 1 ./lock/rabbit/ledger"
	go run ./test/mutants $(MUTANTS)

simulate: ## run berths on a simulated RabbitMQ, in fake time, SEEDS seeds of each kind of lock: SEEDS=1000 make simulate
	go test -tags simulation -count=1 -timeout 12h ./test/simulation/rabbit
	go test -tags simulation -count=1 -timeout 12h ./test/simulation -seeds $(SEEDS)

race: deps ## run the end-to-end tests with a berth that has the race detector
	BERTH_TEST_RACE=1 go test -race -count=1 -timeout 20m ./test/e2e

alerts: deps ## have each alert rule fire in a Prometheus, on the fault that it is for
	go test -tags alerts -v -count=1 -run TestAlertsFireOnTheirFaults ./test/e2e

programs: deps ## end Celery, nginx, PostgreSQL and others as the guide says, with work in hand
	@scripts/deps.sh programs
	go test -tags programs -v -count=1 -run 'TestPrograms|TestTakeoverOfABusy' ./test/e2e

test-brokers: deps ## run the tests that talk to RabbitMQ on 3.10, 4.0 and 4.3, one after the other
	@# Not from the cache: it does not know which broker a package was tested on.
	all=$$(scripts/brokers.sh all) && status=0 && for broker in $$all; do \
		echo "RabbitMQ in $$broker:"; \
		BERTH_TEST_BROKER=$$broker go test -tags simulation,brokers -race -count=1 -timeout 20m ./test/brokertest ./test/simulation/rabbit ./prover/fault ./lock/rabbit ./test/e2e ./test/examples || status=1; \
	done; exit $$status

interop: deps ## have berth contend with a client in Python, with kills, for ten minutes: INTEROP_TIME=1h make interop
	INTEROP_TIME=$(INTEROP_TIME) go test -v -count=1 -timeout 12h -run MixedFleets ./test/interop

faults: ## break network, broker and processes on purpose: FAULTS_RUNS=30 make faults
	@scripts/deps.sh faults
	go -C test/faults test -v -count=1 -timeout 12h -skip ThreeNodes .

clusters: deps ## lose a node of three, for each kind of lock, into docs/clusters.txt, on RabbitMQ 4.3: half an hour
	all=$$(scripts/brokers.sh $(CLUSTERS)) && status=0 && for broker in $$all; do \
		BERTH_TEST_NODES=3 BERTH_TEST_BROKER=$$broker go test -tags simulation,brokers -count=1 -run 'Conform|ThreeNodes|RealCluster' ./lock/rabbit ./test/simulation/rabbit || status=1; \
		BERTH_TEST_BROKER=$$broker FAULTS_PAGE=$(CURDIR)/docs/clusters.txt FAULTS_COMMIT="$(COMMIT)" \
			go -C test/faults test -v -count=1 -timeout 2h -run ThreeNodes . || status=1; \
	done; exit $$status

prove: deps build prover ## have berth-prove judge five kinds of lock, into dist/prove, on 3.10 and 4.3: ten minutes
	@go build -o dist/prove-berth ./scripts/prove
	@dist/prove-berth

prove-all: deps build prover ## the same for all kinds, versions and commands, 90 runs, three hours with this: PROVE_TIME=90s make prove-all
	@go build -o dist/prove-berth ./scripts/prove
	@dist/prove-berth all

prove-mutants: deps build prover ## check that berth-prove catches berths that are broken on purpose, 5 minutes each at most
	@go build -o dist/prove-berth ./scripts/prove
	@dist/prove-berth mutants

model: ## check the protocol's model exhaustively, and that its broken variants fail
	@scripts/deps.sh model
	@scripts/model.sh

bench: build ## measure berth into docs/performance.txt, on a quiet machine: make bench BENCH="-only handover -n 5"
	@scripts/deps.sh bench
	go build -o dist/bench ./test/bench
	dist/bench -markdown docs/performance.txt -json dist/bench.json $(BENCH)
	@# Once more beside the newest ones.
	broker=$$(scripts/brokers.sh 4.3) && etcd=$$(scripts/etcd.sh) && PATH=$$etcd:$$PATH BERTH_TEST_BROKER=$$broker \
		dist/bench -newest -markdown docs/performance.txt -json dist/bench-newest.json $(BENCH)

efficiency: deps ## measure tokens beside A/B, and ways to probe, into docs/efficiency.txt, on 3.10, 4.0 and 4.3
	go build -o dist/efficiency ./test/efficiency
	dist/efficiency -markdown docs/efficiency.txt -json dist/efficiency.json $(EFFICIENCY) $$(scripts/brokers.sh all)

examples: deps ## measure a single consumer into docs/single-consumer.md, on RabbitMQ 4.3: a quarter of an hour
	@# The broker of Debian 12 crashes a queue with a single active consumer.
	broker=$$(scripts/brokers.sh 4.3) && \
		BERTH_TEST_BROKER=$$broker go run ./test/examples -markdown docs/single-consumer.md $(EXAMPLES)

check: ## look at the code without running it: gofmt, vet, staticcheck
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || \
		{ echo "not formatted; run gofmt -w on: $$unformatted" >&2; exit 1; }
	@# Each once, with all tags, and with the race detector, for which the tests need all that this compiles.
	GOGC=400 go vet -race -tags $(TAGS) ./...
	GOGC=400 go -C test/faults vet -race ./...
	@# Absolute, and built from the pin in the top go.mod.
	tool=$$(GOGC=400 CGO_ENABLED=0 go tool -n staticcheck) && export GOGC=400 GOFLAGS="$$(go env GOFLAGS) -race" && \
		"$$tool" -tags $(TAGS) ./... && cd test/faults && "$$tool" ./...

vuln: ## look for known vulnerabilities in what berth is built from
	go run $(VULN) ./...

packages: ## build deb, rpm and the image's root, with bills of materials, into dist/, for amd64 and arm64
	packaging/build.sh

docs: ## write the generated parts of the documentation anew
	go generate ./...

picture: build deps ## record the pictures of README.md anew: two berths of which one is killed, as root
	go run ./scripts/picture ./berth docs

clean: ## remove what building leaves behind
	rm -rf berth dist
