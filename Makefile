# All set-up is: a Go toolchain and make. `make help` lists the targets.
# Nothing is written outside this tree and Go's caches, except by install.

GO      ?= go
PREFIX  ?= /usr/local
DESTDIR ?=

# Limit for the tests of one package, and for one target of `make fuzz`: several times what
# they take, for machines that have other work.
TEST_TIMEOUT ?= 20m
VM_TIMEOUT   ?= 30m
SOAK_TIMEOUT ?= 4h
FUZZTIME     ?= 30s
# So many fuzz tests (0: all), and a regular expression for their names, PACKAGE.NAME
FUZZCOUNT    ?= 0
FUZZ         ?=
# Further flags for go test, e.g. make test TESTFLAGS='-run Prolog'
TESTFLAGS    ?=
# Long tests first: short ones fill the gaps.
PKGS         ?= ./test/standalone/... ./test/... ./cmd/... ./scheduler ./...
# So many packages are built and tested at a time. Tests wait for processes more than they
# compute: four at least.
JOBS         ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); test $$n -gt 4 && echo $$n || echo 4)
# So many tests that fail among others may pass by themselves (test/summary).
AGAIN        ?= 0

# -buildvcs=false: git refuses to look at a tree that belongs to somebody else
# (built as root from a user's clone), and go build would then fail.
export GOFLAGS := -buildvcs=false $(shell $(GO) env GOFLAGS)
# What a test must not skip for lack of; see CONTRIBUTING.md.
export EXECD_TEST_REQUIRE

# The release; internal/version/VERSION is the only place that names it. A commit without the tag
# of the release gets build metadata: 1.2.3+12.gabcdef (the 12th commit), .dirty with local changes.
# dpkg and rpm order these versions as intended.
RELEASE := $(shell cat internal/version/VERSION)
BUILD   := $(shell git rev-parse --short HEAD >/dev/null 2>&1 && \
	{ test "$$(git describe --exact-match --tags --match 'v$(RELEASE)' --dirty 2>/dev/null)" = 'v$(RELEASE)' || \
	echo "$$(git rev-list --count HEAD).g$$(git rev-parse --short HEAD)$$(git diff-index --quiet HEAD -- || echo .dirty)"; })
VERSION := $(RELEASE)$(if $(BUILD),+$(BUILD))
LDFLAGS := -s -w -X github.com/execd-project/execd/internal/version.build=$(BUILD)
# Where transparent huge pages are "always", the first byte of a Go heap takes two
# megabytes. Of the supervisor one runs per job, with a heap of a tenth of that.
SHEPHERD_LDFLAGS := $(LDFLAGS) -X runtime.godebugDefault=disablethp=1

TOOL := $(GO) tool -modfile=tools.mod
# Without vet, which make lint runs, and without debugging information, which no test needs: each
# of the hundred test programs is built sooner.
SUMMARY := $(GO) run ./test/summary -again $(AGAIN) -count=1 -vet=off -ldflags=-w
TEST := $(SUMMARY) -timeout $(TEST_TIMEOUT) -p $(JOBS)

.DEFAULT_GOAL := build

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/execd, bin/execd-launcher and bin/sge_shepherd-go (static, stripped)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='$(LDFLAGS)' -o bin/execd ./cmd/execd
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='$(SHEPHERD_LDFLAGS)' -o bin/execd-launcher ./cmd/launcher
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='$(SHEPHERD_LDFLAGS)' -o bin/sge_shepherd-go ./cmd/shepherd

# Where the library goes, and its compiler flags.
DRMAA        ?= bin
DRMAA_CFLAGS ?= -O2 -g -Wall -Wextra
DRMAA_SOURCE := $(wildcard clients/drmaa/*.[ch] clients/drmaa/*.map)

.PHONY: drmaa
drmaa: $(DRMAA)/libdrmaa.so.1.0 ## build bin/libdrmaa.so.1.0, the DRMAA library (needs a C compiler)

# It may depend on libc alone: programs of all kinds load it.
$(DRMAA)/libdrmaa.so.1.0: $(DRMAA_SOURCE)
	install -d $(DRMAA)
	$(CC) -std=c11 $(DRMAA_CFLAGS) -fPIC -shared -pthread -Wl,-soname,libdrmaa.so.1.0 -Wl,-z,relro,-z,now,-z,defs \
		-Wl,--version-script=clients/drmaa/libdrmaa.map -o $@.new $(filter %.c,$(DRMAA_SOURCE)) -ldl
	mv $@.new $@
	ln -sf libdrmaa.so.1.0 $(DRMAA)/libdrmaa.so

.PHONY: test
test: ## run all tests; what the machine lacks is skipped with the reason
	@$(TEST) $(TESTFLAGS) -- $(PKGS)

# One guest at a time: each has more processors than most machines, and may have to
# be emulated.
.PHONY: test-vm
test-vm: ## run tests in virtual machines (needs QEMU; minutes)
	@EXECD_TEST_VM=1 $(SUMMARY) -timeout $(VM_TIMEOUT) -run '^Test(Command)?VM$$' $(TESTFLAGS) -- ./test/vm

# What lies below test/ drives the built executables (a real Grid Engine among
# them): minutes of work in which the race detector would see only the driver.
# Packages without goroutines have no races; test/architecture checks that they start none.
# Tests start thousands of processes; each would linger for a second when it ends.
RACELESS := accounting|cell/command|cell/view|packaging|qconf|qstat|quantity|scheduler|simulate|submit
# Those of cmd/execd start execd itself, hundreds of times: four minutes with the detector. What it
# consists of is tested in packages of its own.
RACE := CGO_ENABLED=1 GORACE=atexit_sleep_ms=50 $(TEST) -race $(TESTFLAGS)
.PHONY: race race-commands
race: ## run the tests of the packages with the race detector (needs gcc)
	@$(RACE) -- $$($(GO) list $(PKGS) | grep -Ev '/execd/(test|$(RACELESS))(/|$$)|/cmd/execd$$')

race-commands: ## run those of cmd/execd with the race detector (make soak does)
	@$(RACE) -- ./cmd/execd

.PHONY: lint
lint: ## run the linters (the first time builds them: about two minutes)
	$(TOOL) golangci-lint run $(PKGS)

.PHONY: api-check
api-check: ## compare the Go API of the packages for import with the files in test/api
	@GO='$(GO)' test/api/run check

.PHONY: api-update
api-update: ## write these files, after a line under "Go API" in CHANGELOG.md
	@GO='$(GO)' test/api/run update

.PHONY: fmt
fmt: ## format the Go files
	$(TOOL) gofumpt -w .

.PHONY: tidy
tidy: ## check that go.mod and go.sum hold just what is used
	$(GO) mod tidy -diff

# Asks the module proxy: no part of CI, where a new release must not fail a build.
.PHONY: outdated
outdated: ## list the modules in the executables that have a newer release
	@$(GO) list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}' ./cmd/... | sort -u | \
	xargs $(GO) list -u -m -f '{{if .Update}}{{.Path}} {{.Version}} -> {{.Update.Version}}{{end}}' | grep . || true

# Types the commands of the README and the guides, follows links, looks for manual pages.
.PHONY: docs-check
docs-check: ## run the commands of README and docs, check links and manual pages
	@$(TEST) $(TESTFLAGS) -- ./test/docs
	@$(TEST) -run '^(TestGuides|TestReadme|TestGuideExamplesOfExecdRun|TestDocumentation|TestCellDirectory)$$' $(TESTFLAGS) -- ./test/standalone ./test/master ./cmd/execd ./agent/api/serve

.PHONY: check
check: build tidy lint api-check test race test-vm ## everything that CI asks of a change

.PHONY: bench
bench: build ## measure what a job costs its host, and what a scheduling run takes beside the original
	$(GO) run ./test/bench
	$(GO) run ./test/bench/agent -bin bin
	$(GO) test -run '^$$' -bench BenchmarkRun -benchmem -benchtime 10x ./scheduler
	$(GO) test -run '^$$' -bench BenchmarkReserve -benchtime 1x ./cmd/execd/internal/simulate
	$(GO) test -v -run '^$$' -bench . -benchtime 1x ./test/scheduling
	$(GO) test -run '^$$' -bench 'FirstInstruction|ShortJobs' -benchtime 5x ./test/standalone
	$(GO) test -run '^$$' -bench 'PendingJobs|Beside' -benchtime 1x -timeout 1h ./test/standalone

.PHONY: demo
demo: build ## start a batch system, run the sample scripts of examples/ in it, show what became of them
	@examples/demo.sh

.PHONY: soak
soak: race-commands ## run the tests that take long (TestSoak...)
	@EXECD_TEST_SOAK=1 $(SUMMARY) -timeout $(SOAK_TIMEOUT) -run '^TestSoak' $(TESTFLAGS) -- $(PKGS)

# FUZZCOUNT=10 runs only ten, other ones for each commit.
.PHONY: fuzz
fuzz: ## run every fuzz test for FUZZTIME (30s), or FUZZCOUNT of them
	@$(GO) run ./test/fuzz -time $(FUZZTIME) -count $(FUZZCOUNT) -turn "$$(git rev-list --count HEAD 2>/dev/null || echo 0)" $(FUZZ)

# Grid Engine's commands, which are links to execd (execd standalone). They are in a folder
# of their own, with their manual pages: those of a Grid Engine may be there, too. man(1)
# finds the pages of all folders in PATH.
COMMANDS := qacct qalter qconf qdel qhold qhost qlogin qmod qquota qrdel qresub qrls qrsh qrstat qrsub qselect qstat qsub sge_share_mon
# Those that execd does not have: it says what to type instead.
ABSENT := qmake qmon qping qsh qtcsh

.PHONY: man
man: ## write the options of Grid Engine's commands into their manual pages
	$(GO) run ./packaging/man docs/man/commands

# What install writes below PREFIX, and uninstall removes.
INSTALLED := bin/execd bin/execd-launcher bin/sge_shepherd-go lib/execd lib/systemd/user/execd.service \
	share/bash-completion/completions/execd share/zsh/site-functions/_execd share/fish/vendor_completions.d/execd.fish \
	$(foreach page,$(notdir $(wildcard docs/man/*.[1-8])),share/man/man$(patsubst .%,%,$(suffix $(page)))/$(page)) \
	$(patsubst %,share/man/man1/execd-%,$(notdir $(wildcard docs/man/commands/*.1)))

.PHONY: install
install: ## install what `make build` made, and the manual, below PREFIX (/usr/local)
	@test -x bin/execd && test -x bin/execd-launcher && test -x bin/sge_shepherd-go || { echo 'nothing to install yet: run make build first' >&2; exit 1; }
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 bin/execd bin/execd-launcher bin/sge_shepherd-go $(DESTDIR)$(PREFIX)/bin/
	install -d $(DESTDIR)$(PREFIX)/lib/execd/bin $(DESTDIR)$(PREFIX)/lib/execd/share/man/man1
	for section in 1 5 7 8; do \
		install -d $(DESTDIR)$(PREFIX)/share/man/man$$section && \
		install -m 644 docs/man/*.$$section $(DESTDIR)$(PREFIX)/share/man/man$$section/ || exit 1; \
	done
	for page in docs/man/commands/*.1; do \
		install -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man1/execd-$${page##*/} || exit 1; \
	done
	for command in $(COMMANDS); do \
		ln -sfn ../../../bin/execd $(DESTDIR)$(PREFIX)/lib/execd/bin/$$command && \
		ln -sfn ../../../../../share/man/man1/execd-$$command.1 $(DESTDIR)$(PREFIX)/lib/execd/share/man/man1/$$command.1 || exit 1; \
	done
	for command in $(ABSENT); do ln -sfn ../../../bin/execd $(DESTDIR)$(PREFIX)/lib/execd/bin/$$command || exit 1; done
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	bin/execd completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/execd
	bin/execd completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_execd
	bin/execd completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/execd.fish
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/user
	@# The DRMAA library, if `make drmaa` has built it.
	if test -f bin/libdrmaa.so.1.0; then \
		install -d $(DESTDIR)$(PREFIX)/lib/execd/lib $(DESTDIR)$(PREFIX)/lib/execd/include && \
		install -m 644 bin/libdrmaa.so.1.0 $(DESTDIR)$(PREFIX)/lib/execd/lib/ && \
		ln -sfn libdrmaa.so.1.0 $(DESTDIR)$(PREFIX)/lib/execd/lib/libdrmaa.so && \
		install -m 644 clients/drmaa/drmaa.h $(DESTDIR)$(PREFIX)/lib/execd/include/; \
	fi
	sed 's,/usr/bin/,$(PREFIX)/bin/,' packaging/execd-user.service >$(DESTDIR)$(PREFIX)/lib/systemd/user/execd.service
	chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/user/execd.service

# What jobs and daemons have written (/var/spool/execd, ~/.local/state/execd), and the
# configuration (/etc/execd), stay.
.PHONY: uninstall
uninstall: ## remove what `make install` installed
	cd $(DESTDIR)$(PREFIX) && rm -rf $(INSTALLED)

PACKAGE_VERSION := $(VERSION)
PACKAGE_ARCH ?= $(shell $(GO) env GOARCH)
# Where the packages go.
PACKAGES     ?= bin

MAINTAINER   := The execd project <execd-project@users.noreply.github.com>

# A file with a private OpenPGP key, to sign the packages; its pass phrase is in
# NFPM_PASSPHRASE.
PACKAGE_KEY  ?=

# changelog prints the compressed changelog of a .deb.
changelog = printf '$(1) (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' '$(PACKAGE_VERSION)' '$(MAINTAINER)' \
	"$$(git log -1 --format=%cD 2>/dev/null || date -R)" | gzip -9n

# nfpm makes the packages of a description: both, or those of the formats in the second argument.
nfpm = for format in $(or $(2),deb rpm); do \
	PACKAGE_VERSION='$(PACKAGE_VERSION)' PACKAGE_ARCH='$(PACKAGE_ARCH)' PACKAGE_KEY='$(PACKAGE_KEY)' \
	SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
	$(GO) tool -modfile=packaging/tools.mod nfpm package -f $(1) -p $$format -t '$(PACKAGES)' || exit 1; \
done

.PHONY: package
package: build ## make a .deb and an .rpm with their bills of materials, in PACKAGES (bin)
	rm -rf bin/package
	install -d bin/package/man bin/package/completion '$(PACKAGES)'
	for shell in bash zsh fish; do CGO_ENABLED=0 GOOS= GOARCH= $(GO) run ./cmd/execd completion $$shell >bin/package/completion/execd.$$shell || exit 1; done
	for page in docs/man/*.[1-8]; do gzip -9nc $$page >bin/package/man/$${page##*/}.gz || exit 1; done
	for page in docs/man/commands/*.1; do gzip -9nc $$page >bin/package/man/execd-$${page##*/}.gz || exit 1; done
	sed -e '/^Environment=EXECD_COMMAND=/d' -e 's/ \$$EXECD_COMMAND / standalone /' -e 's/^Description=.*/Description=execd standalone, a batch system on this host/' \
		-e 's/^Documentation=.*/Documentation=man:execd-standalone(8) man:execd-conf(5)\nConflicts=execd.service/' \
		packaging/execd.service >bin/package/execd-standalone.service
	$(call changelog,execd) >bin/package/changelog.gz
	for program in execd execd-launcher sge_shepherd-go; do \
		$(GO) run ./packaging/bom -version '$(PACKAGE_VERSION)' bin/$$program >bin/package/$$program.cdx.json && \
		cp bin/package/$$program.cdx.json '$(PACKAGES)' || exit 1; \
	done
	$(call nfpm,packaging/nfpm.yaml)

.PHONY: package-drmaa
package-drmaa: ## make a .deb and an .rpm of the DRMAA library, in PACKAGES (needs a C compiler for PACKAGE_ARCH)
	rm -rf bin/package-drmaa
	install -d bin/package-drmaa '$(PACKAGES)'
	$(MAKE) drmaa DRMAA=bin/package-drmaa DRMAA_CFLAGS='-O2 -Wall -Wextra -fstack-protector-strong -D_FORTIFY_SOURCE=2 -s'
	$(call changelog,execd-drmaa) >bin/package-drmaa/changelog.gz
	$(call nfpm,packaging/nfpm-drmaa.yaml)

.PHONY: package-python
package-python: ## make a wheel and a .deb of the Python module, in PACKAGES (needs python3)
	rm -rf bin/package-python
	install -d bin/package-python '$(PACKAGES)'
	python3 packaging/wheel.py '$(PACKAGE_VERSION)' '$(PACKAGES)'
	$(call changelog,python3-execd-client) >bin/package-python/changelog.gz
	$(call nfpm,packaging/nfpm-python.yaml,deb)

.PHONY: version
version: ## print the version of this tree
	@echo '$(VERSION)'

.PHONY: clean
clean: ## remove what was built
	rm -rf bin
