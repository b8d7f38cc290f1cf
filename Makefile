# datamove: `make` builds, `make demo` shows, `make check` is for work on the code,
# `make test` needs Go and make alone, `make system` real programs and servers, and
# `make soak` hours. test/setup installs what they look for.

SHELL   := /bin/bash
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Commands, tests and linter find what the others have compiled. The race detector needs cgo, and has
# each process wait at its end for a second, unless it is told otherwise: there are thousands. gRPC without its own tracing
# has no template, and the linker drops methods that are not called: TestProgramSize.
GOFLAGS ?= -p=2 -trimpath -tags=grpcnotrace
CGO_ENABLED ?= 0
RACE    := CGO_ENABLED=1 GORACE=atexit_sleep_ms=10
BUILD   := CGO_ENABLED=0 go build -trimpath -tags=grpcnotrace -ldflags '-s -w -X main.version=$(VERSION)'
TESTS   := go run ./test/runner
# make test BUDGET='-budget print' runs what is cached, too, and tells which packages use the most CPU time.
BUDGET  ?=
# lint vets all packages; and nobody debugs these binaries.
QUICK   := -vet=off -ldflags '-s -w'
FUZZTIME ?= 20s
COUNT   ?= 10
export GOFLAGS CGO_ENABLED
export PATH := $(CURDIR)/bin/tools:$(PATH)

COMMANDS := $(notdir $(wildcard cmd/*))
ARCHS    := amd64 arm64

.PHONY: build api api-release safety docs screenshots demo check test system soak loaded lint fuzz sim stress bench bench-small bench-csi bench-slurm e2e-s3 e2e-ceph e2e-vm e2e-k8s e2e-slurm e2e-aws lustre-test fabric fabric-load dist image clean setup
build: $(addprefix build-,$(COMMANDS))

# One command to bin/. The go tool knows best what is up to date.
build-%:
	$(BUILD) -o bin/$* ./cmd/$*

# The embedded S3 store, which no shipped binary contains.
bin/s3dev: $(wildcard test/s3dev/*.go) test/s3dev/go.mod
	CGO_ENABLED=0 go -C test/s3dev build -trimpath -o $(CURDIR)/$@ .

# What the .proto files make: Go code, gateway, OpenAPI file.
api:
	api/generate

# From here on, this is the API that lint holds every change against.
api-release:
	cd api && buf build -o released.binpb
	api/generate

# The tables of docs/safety.md, from the markers above the tests.
safety:
	go test -count=1 -run '^TestSafety$$' ./test/arch -update

# The pages and tables of docs/reference that are made of the code: commands, exit codes, configuration, policies, API and metrics.
docs:
	go test -count=1 -run '^(TestReference|TestReadmeHasEveryMetric)$$' ./api ./cmd/datamove-bench/harness ./cmd/datamove-csi/driver ./cmd/datamove/root ./cmd/datamoved/daemon ./mover/config ./test/monitoring ./tiering/policy -update

# The pictures of the page in docs/images, as the browser's test takes them.
screenshots:
	@set -e; d=$$(mktemp -d); trap 'rm -rf '$$d EXIT; \
	DATAMOVE_SOAK=1 go test -count=1 -run '^TestLooks$$' -artifacts -outputdir $$d ./test/system/browser; \
	for name in tasks-wide task-wide tiers; do install -m 644 $$d/_artifacts/*/$$name.png docs/images/page-$${name%-wide}.png; done

# The tour is of datamove alone: no other command is built for it.
demo: build-datamove bin/s3dev
	test/demo

setup:
	test/setup

# LINTED: the packages that are looked at.
LINTED := ./...
lint:
	@bad="$$(gofmt -l $$(git ls-files '*.go'))"; test -z "$$bad" || { echo "not gofmt: $$bad"; exit 1; }
	@if command -v golangci-lint >/dev/null; then \
		if [ -n "$(LINTED)" ]; then echo golangci-lint run $(LINTED); golangci-lint run --allow-parallel-runners $(LINTED); fi; \
	elif [ "$$DATAMOVE_STRICT" = 1 ]; then echo 'golangci-lint is missing'; exit 1; \
	else echo 'golangci-lint is missing: test/setup installs it'; go vet ./...; fi
	go -C deploy/image vet ./...
	go -C test/s3dev vet ./...
	api/check

# The hermetic packages, in short, and what has not changed from the cache. After a change in mover the linter takes two
# minutes for all packages: here it takes those with a change that is not upstream yet. The tests compile all others, but
# those of the other levels: vet does.
check: export GOGC ?= 400
check: LINTED = $(shell test/changed || echo ./...)
check: lint
	go vet ./test/...
	$(TESTS) -level hermetic $(QUICK) -p 4 -short

# All hermetic packages, with the race detector where it can find something.
test:
	$(TESTS) $(BUDGET) -level hermetic -race -modules .,deploy/image,test/s3dev $(QUICK) -timeout 10m

# What starts real programs, servers and kernel facilities, as root. They wait more than they work: three packages at a time.
system:
	$(TESTS) $(BUDGET) -level system $(QUICK) -p 3 -timeout 10m

# Every fuzz target of the tree, one after the other: make fuzz FUZZTIME=5m. Up to
# Go 1.26 a target may end its time with a bare "context deadline exceeded" (go.dev/issue/75804),
# which is no finding: those come with an input.
fuzz:
	@set -e -o pipefail; log=$$(mktemp); trap 'rm -f '$$log EXIT; \
	for dir in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
		for name in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go | cut -c6-); do \
			echo "== $$dir $$name"; \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) ./$$dir 2>&1 | tee $$log || { \
				grep -q '^    context deadline exceeded$$' $$log && ! grep -q 'Failing input' $$log; }; \
		done; \
	done

# Hours of kills, power cuts, random seeds and whole systems; test/soak says more: make soak MINUTES=60 SEED=7 ONLY=TestX
soak:
	MINUTES='$(MINUTES)' SEED='$(SEED)' ONLY='$(ONLY)' test/soak

# CI's tests beside busy loops, so often: what fails by chance is found there.
loaded:
	RUNS='$(RUNS)' LOAD='$(LOAD)' TARGETS='$(TARGETS)' test/loaded

# The engine over memory with faults, and the whole service, from new seeds, which are said first. SEED=7 repeats a run of the engine, WORLD=7:steps=1,4 a world
# of the service.
sim:
	@if [ -n '$(WORLD)' ]; then \
		DATAMOVE_WORLD='$(WORLD)' $(TESTS) -v -count=1 -run '^TestWorld$$' ./test/simulation/service; \
	elif [ -n '$(SEED)' ]; then \
		DATAMOVE_SEED='$(SEED)' $(TESTS) -count=1 ./test/simulation/engine; \
	else \
		seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
		echo "make sim: seeds from $$seed"; \
		DATAMOVE_SOAK=1 DATAMOVE_SEED=$$seed $(TESTS) -count=1 -timeout 60m ./test/simulation/...; \
	fi

# One test until it fails: make stress RUN=TestName PKG=./mover/backend/posix COUNT=100
stress:
	@test -n "$(RUN)" || { echo 'make stress RUN=TestName [PKG=./mover/...] [COUNT=100]'; exit 2; }
	@go test -list '$(RUN)' $(or $(PKG),./...) | grep -qE '^(Test|Fuzz)' || { echo "no test matches RUN='$(RUN)'"; exit 2; }
	$(RACE) go test -race -failfast -count $(COUNT) -run '$(RUN)' $(or $(PKG),./...)

# Our mover beside its peers on the same data, those that are installed (test/setup soak); see bench/compare.
bench: build
	bin/datamove-bench compare -o md > bench/RESULTS.md.new $(BENCHFLAGS)
	mv bench/RESULTS.md.new bench/RESULTS.md

# The same in small, in less than a minute: bin/bench-small.json, which CI keeps.
bench-small: build
	bin/datamove-bench compare -q --quick --save bin/bench-small.json $(BENCHFLAGS)

# How long a mount of the CSI driver takes on a node with 200 others, at the 50th and 99th of a hundred, and what the
# driver holds in memory. As root, with btrfs.
bench-csi:
	@set -o pipefail; go test -run '^$$' -bench '^BenchmarkPublish$$' -benchtime 1000x -count $(COUNT) ./cmd/datamove-csi/driver | \
		awk '{ print } / ns\/op/ { ran = 1 } END { exit !ran }' # go test ends with 0 where it has skipped it

# How long the hooks of Slurm take, and for what a job waits beside an rsync prolog, to bench/SLURM.md: five minutes of a machine
# that does nothing else, as root. DATAMOVE_FIGURES_SCALE=0.1 tries it, and writes nothing.
bench-slurm:
	DATAMOVE_SOAK=1 DATAMOVE_FIGURES=$(VERSION) $(TESTS) -v -count=1 -timeout 15m -run '^TestFigures$$' ./test/slurm

# The S3 tests against other servers than the embedded one, those that are installed (test/setup e2e).
e2e-s3: build
	test/e2e-s3

# The tests of CephFS, on a cluster of its own: by ceph-fuse, and in a guest by the kernel.
e2e-ceph:
	test/e2e-ceph

# What needs another kernel: project quotas, NFS, power cuts, failing disks, in emulated machines.
# make e2e-vm RUN=TestQuotas
e2e-vm:
	test/e2e-vm '$(RUN)'

# The CSI driver in a real Kubernetes of two nodes. make e2e-k8s RUN=TestVolumes
e2e-k8s:
	test/e2e-k8s '$(RUN)'

# A whole burst in AWS, for a person with an account: it costs about a dollar. test/e2e-aws says what it wants.
e2e-aws: build
	test/e2e-aws

# All tests in a real Slurm, with those that have one of their own, which make system leaves out. make e2e-slurm RUN=TestRestart
e2e-slurm:
	test/e2e-slurm '$(RUN)'

# What runs on a real Lustre, as static binaries that need nothing there:
# LUSTRE_MOUNT=/mnt/lustre bin/lustre.test -test.v, as root and as a user, and
# LUSTRE_MOUNT=/mnt/lustre bin/copytool.test -test.v -test.run Real, as root, with HSM, and
# LUSTRE_MOUNT=/mnt/lustre bin/commands.test -test.v -test.run OnLustre, as root and as a user.
lustre-test:
	CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o bin/lustre.test ./lustre/client
	CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o bin/copytool.test ./lustre/copytool
	CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o bin/commands.test ./cmd/datamove/root

# The scale model: 32 nodes in network namespaces, each behind its own shaped link.
# make fabric FABRICFLAGS='-rounds 5'
fabric: build
	CGO_ENABLED=0 go build -trimpath -o bin/fabric-pages ./test/fabric/pages
	go run ./test/fabric/model $(FABRICFLAGS)

# The scale model loaded: 32 agents and 16 servers, each behind its own shaped link, and the verdict of what they do.
# make fabric-load FABRICFLAGS='-servers 13 -agent-mbit 50 -server-mbit 100'
fabric-load: build
	go run ./test/fabric/verdict $(FABRICFLAGS)

dist:
	@set -e; for arch in $(ARCHS); do for c in $(COMMANDS); do \
		echo "dist/$$c-linux-$$arch"; \
		GOOS=linux GOARCH=$$arch $(BUILD) -o dist/$$c-linux-$$arch ./cmd/$$c; \
		go version -m dist/$$c-linux-$$arch | grep -q 'CGO_ENABLED=0'; \
	done; done; cd dist; sha256sum *-linux-* > SHA256SUMS

# The container image of the programs, for each architecture, without a daemon: dist/image has
# archives for ctr, podman, skopeo and docker. make image PUSH=registry.site/team/datamove
IMAGE    ?= datamove.dev/datamove
PROGRAMS := datamove datamove-bench datamove-csi datamoved
image:
	@set -e; for arch in $(ARCHS); do for c in $(PROGRAMS); do \
		GOOS=linux GOARCH=$$arch $(BUILD) -o dist/$$c-linux-$$arch ./cmd/$$c; \
	done; done
	go -C deploy/image run . -programs $(CURDIR)/dist -out $(CURDIR)/dist/image -name $(IMAGE) -version $(VERSION) \
		-architectures "$$(echo $(ARCHS) | tr ' ' ,)" -revision "$$(git rev-parse HEAD)" -epoch "$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}" -push '$(PUSH)'

clean:
	rm -rf bin dist
