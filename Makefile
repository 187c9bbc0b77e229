# SPDX-License-Identifier: Apache-2.0
#
# fsgroupfs: the one makefile. `make help` lists the targets.
#
# Variables to set on the command line or in the environment:
#   CC=gcc|clang         the compiler (default gcc)
#   CFLAGS, LDFLAGS      optimisation and debugging (default -O2 -g; -O1 -g under sanitizers) and linker flags;
#                        what the project itself needs is added to them
#   V=1                  show the commands
#   WERROR=1             warnings are errors
#   SANITIZE=LIST        sanitizers, e.g. address,undefined or thread; objects and programs go to directories of their own
#   BIN=DIR              the programs     (default build/bin,   with SANITIZE build/bin-LIST)
#   OBJ=DIR              the objects      (default build/obj,   with SANITIZE build/san-LIST/obj)
#   TESTBIN=DIR          the test programs (default build/tests, with SANITIZE build/san-LIST/tests)
#   QUICK=1, PARTS=LIST  make bench: a small one; some of its parts (tests/bench/bench_all.sh, bench_compare.sh)
#   SOAK_SECONDS=N       how long `make soak` goes on (default 3600)
#   COUNT=N              how often soak-failover kills the server on each file system (default 1000), how many volumes
#                        soak-cycles mounts and unmounts (default 10000)
#   FILTER=TEXT          run only the tests with TEXT in their name
#   ROWS, CELLS, LONG    which part of the table `make test-table` runs (tests/integ/test_volume_table.sh)
#   FUZZ_SECONDS=N       how long `make fuzz` stays with each target (default 600)
#   JOBS=N               compilers at once under `make test` and the like (default: the number of CPUs)
#   BOOTSTRAP=COMMAND    what `make test` and `make demo` set up the machine with (BOOTSTRAP=true: nothing)
#   PREFIX, DESTDIR      where `make install` puts things (default /usr/local, and nothing before it); the directories
#                        bindir sbindir mandir docdir bashcompdir zshcompdir can be set one by one, and
#                        mounthelperdir, the one directory in which mount(8) looks for its helpers

ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
V ?=
WERROR ?=
SANITIZE ?=
BIN ?= build/bin$(SANITIZE:%=-%)
OBJ ?= $(if $(SANITIZE),build/san-$(SANITIZE)/obj,build/obj)
TESTBIN ?= $(if $(SANITIZE),build/san-$(SANITIZE)/tests,build/tests)
CFLAGS ?= $(if $(SANITIZE),-O1,-O2) -g
LDFLAGS ?=
FILTER ?=
JOBS ?= $(shell nproc)
ROWS ?=
QUICK ?=
PARTS ?=
CELLS ?=
LONG ?=
BOOTSTRAP ?= scripts/bootstrap
DESTDIR ?=
PREFIX ?= /usr/local
bindir ?= $(PREFIX)/bin
sbindir ?= $(PREFIX)/sbin
mounthelperdir ?= /usr/sbin
mandir ?= $(PREFIX)/share/man
docdir ?= $(PREFIX)/share/doc/fsgroupfs
unitdir ?= $(PREFIX)/lib/systemd/system
bashcompdir ?= $(PREFIX)/share/bash-completion/completions
zshcompdir ?= $(PREFIX)/share/zsh/site-functions

VERSION := $(file <VERSION)
FUSE_MIN := 3.18.3
PACKAGES := mount blkid sqlite3 jansson libmd libseccomp libcap-ng

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(2)')

# --- sources: found, not listed, so that a new file needs no edit here ---

BASE_SRC := $(wildcard fs/base/*.c)
OWNERSHIP_SRC := $(wildcard fs/ownership/*.c)
FS_SRC := $(wildcard fs/*.c)
STORE_SRC := $(wildcard store/*.c)
PLUGINS_SRC := $(wildcard plugins/*.c)
MOUNTD_SRC := $(wildcard mountd/*.c)
CTL_SRC := $(wildcard mountd/ctl/*.c)
FLEX_SRC := $(wildcard mountd/flex/*.c)
MOUNT8_SRC := $(wildcard mountd/mount8/*.c)
# What those have in which people name the arguments of a mount.
WORDS_SRC := $(wildcard mountd/client/words.c)
# What every client of the daemon has.
CLIENT_SRC := $(filter-out $(WORDS_SRC),$(wildcard mountd/client/*.c)) $(wildcard mountd/proto*.c mountd/path*.c)
MAIN_SRC := $(wildcard fs/main.c mountd/main.c mountd/ctl/main.c mountd/flex/main.c mountd/mount8/main.c)
UNIT_SRC := $(wildcard tests/unit/test_*.c)
INTEG_SRC := $(wildcard tests/integ/test_*.c)
HELPER_SRC := $(wildcard tests/helpers/*.c)
BENCH_SRC := $(wildcard tests/bench/*.c)
DIFFERENTIAL_SRC := $(wildcard tests/differential/*.c)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)

objects = $(patsubst %.c,$(OBJ)/%.o,$(1))

# --- programs: which room goes into which, and what it is linked with ---

fsgroupfs_SRC := $(FS_SRC) $(OWNERSHIP_SRC) $(BASE_SRC)
fsgroupfs_PKG := fuse3 libseccomp libcap-ng
fsgroup-mountd_SRC := $(MOUNTD_SRC) $(PLUGINS_SRC) $(STORE_SRC) $(OWNERSHIP_SRC) $(BASE_SRC)
fsgroup-mountd_PKG := mount blkid sqlite3 jansson libmd
fsgroupctl_SRC := $(sort $(CTL_SRC) $(CLIENT_SRC) $(WORDS_SRC)) mountd/object_file.c mountd/rules.c mountd/spec.c $(BASE_SRC)
fsgroupctl_PKG := jansson
fsgroup-flexvolume_SRC := $(FLEX_SRC) $(CLIENT_SRC) $(BASE_SRC)
fsgroup-flexvolume_PKG := jansson
mount.fsgroupfs_SRC := $(MOUNT8_SRC) $(CLIENT_SRC) $(WORDS_SRC) mountd/mount_flags.c mountd/object_file.c $(BASE_SRC)
mount.fsgroupfs_PKG := jansson

# A program is there once its main file is.
PROGRAMS := $(if $(wildcard fs/main.c),fsgroupfs) $(if $(wildcard mountd/main.c),fsgroup-mountd) \
	$(if $(wildcard mountd/ctl/main.c),fsgroupctl) $(if $(wildcard mountd/flex/main.c),fsgroup-flexvolume) \
	$(if $(wildcard mountd/mount8/main.c),mount.fsgroupfs)
PROGRAM_FILES := $(addprefix $(BIN)/,$(PROGRAMS))
COMPLETIONS := $(addprefix $(BIN)/completion/,bash zsh)

# Tests link the rooms as archives, without the main files. A room stands before those it uses.
ROOMS := mountd plugins store fs ownership base
mountd_SRC := $(filter-out $(MAIN_SRC),$(MOUNTD_SRC) $(wildcard mountd/*/*.c))
plugins_SRC := $(PLUGINS_SRC)
store_SRC := $(STORE_SRC)
fs_SRC := $(filter-out $(MAIN_SRC),$(FS_SRC))
ownership_SRC := $(OWNERSHIP_SRC)
base_SRC := $(BASE_SRC)
ARCHIVES := $(ROOMS:%=$(OBJ)/lib%.a)

UNIT_FILES := $(UNIT_SRC:tests/%.c=$(TESTBIN)/%)
INTEG_FILES := $(INTEG_SRC:tests/%.c=$(TESTBIN)/%)
HELPER_FILES := $(HELPER_SRC:tests/%.c=$(TESTBIN)/%)
BENCH_FILES := $(BENCH_SRC:tests/%.c=$(TESTBIN)/%)
FUZZ_FILES := $(FUZZ_SRC:tests/%.c=$(TESTBIN)/%)
DIFFERENTIAL_FILE := $(if $(DIFFERENTIAL_SRC),$(TESTBIN)/differential)
INTEG_SCRIPTS := $(filter-out %.c,$(wildcard tests/integ/test_*))

# --- libraries: looked for only where something is compiled, with a clear error ---

NO_COMPILE := help clean distclean test demo fuzz test-fuzz test-package check-layers check-format check-warnings install-files uninstall
ifneq ($(filter-out $(NO_COMPILE),$(or $(MAKECMDGOALS),all)),)

ifneq ($(wildcard build/deps/prefix/lib/pkgconfig/fuse3.pc),)
export PKG_CONFIG_PATH := $(abspath build/deps/prefix/lib/pkgconfig)$(if $(PKG_CONFIG_PATH),:$(PKG_CONFIG_PATH))
PKG_ENV := PKG_CONFIG_PATH='$(PKG_CONFIG_PATH)'
endif
pkg = $(shell $(PKG_ENV) pkg-config $(1))
pkg_check = $(if $(filter ok,$(shell $(PKG_ENV) pkg-config $(1) 2>/dev/null && echo ok)),,\
	$(error $(2) is missing: run scripts/bootstrap first))

ifeq ($(shell command -v pkg-config),)
$(error pkg-config is missing: run scripts/bootstrap first)
endif
$(call pkg_check,--atleast-version=$(FUSE_MIN) fuse3,libfuse >= $(FUSE_MIN))
$(foreach p,$(PACKAGES),$(call pkg_check,--exists $(p),the development package of $(p)))
ifneq ($(filter-out all install deb $(BIN)/%,$(or $(MAKECMDGOALS),all)),)
$(call pkg_check,--exists cmocka,the development package of cmocka)
endif

PKG_CFLAGS := $(call pkg,--cflags fuse3 $(PACKAGES))
fsgroupfs_LIBS := $(call pkg,--libs --static fuse3) $(call pkg,--libs libseccomp libcap-ng)
fsgroup-mountd_LIBS := $(call pkg,--libs $(fsgroup-mountd_PKG))
fsgroupctl_LIBS := $(call pkg,--libs $(fsgroupctl_PKG))
fsgroup-flexvolume_LIBS := $(call pkg,--libs $(fsgroup-flexvolume_PKG))
mount.fsgroupfs_LIBS := $(call pkg,--libs $(mount.fsgroupfs_PKG))
TEST_LIBS := $(call pkg,--libs cmocka $(PACKAGES)) $(call pkg,--libs --static fuse3)
endif

# --- flags ---

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wpointer-arith \
	-Wvla -Wformat=2 -Wundef -Wredundant-decls -Wnull-dereference \
	-Wno-missing-field-initializers $(if $(WERROR),-Werror)
HARDENING := -fstack-protector-strong -fstack-clash-protection -fPIE \
	$(if $(SANITIZE),-U_FORTIFY_SOURCE,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
SANITIZER := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)

COMPILE = $(CC) -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DFSGROUPFS_VERSION='"$(VERSION)"' -I. $(PKG_CFLAGS) \
	$(CPPFLAGS) $(WARNINGS) $(CFLAGS) $(HARDENING) $(SANITIZER) -pthread
LINK = $(CC) $(CFLAGS) $(SANITIZER) -pthread -pie -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--as-needed $(LDFLAGS)

# --- targets ---

.PHONY: all
all: $(PROGRAM_FILES) $(COMPLETIONS) ## compile the programs (default); runs nothing

.PHONY: test-programs
test-programs: all $(UNIT_FILES) $(INTEG_FILES) $(HELPER_FILES) $(BENCH_FILES) $(DIFFERENTIAL_FILE) ## compile the tests and their helpers as well

run_tests = BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' FILTER='$(FILTER)' scripts/run-tests

.PHONY: test-unit test-integ run-all-tests
test-unit: $(UNIT_FILES) ## the unit tests alone
	$(Q)$(run_tests) --unit
test-integ: all $(INTEG_FILES) $(HELPER_FILES) $(BENCH_FILES) $(DIFFERENTIAL_FILE) ## the integration tests alone (as root)
	$(Q)$(run_tests) --integ
run-all-tests: test-programs
	$(Q)$(run_tests)

# The libraries may be there only after the bootstrap: a make of its own looks for them.
again = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

.PHONY: test-table
test-table: all $(HELPER_FILES) ## every plugin in every state of a volume (as root; ROWS="local secret", CELLS=text, LONG=1)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' ROWS='$(ROWS)' CELLS='$(CELLS)' LONG='$(LONG)' \
		scripts/run-tests --integ test_volume_table

.PHONY: test demo
test: ## set up the machine, compile, run all tests (FILTER=text selects)
	$(Q)$(BOOTSTRAP)
	$(Q)+$(again) run-all-tests
demo: ## set up the machine, compile, show what it does
	$(Q)$(BOOTSTRAP)
	$(Q)+$(again) all
	$(Q)BIN='$(abspath $(BIN))' scripts/demo

.PHONY: test-large
test-large: all $(HELPER_FILES) ## the walk of ten million files in one directory, and ten thousand deep (as root; 30 GB, half an hour)
	$(Q)ENTRIES=10000000 DEPTH=10000 TEST_TIMEOUT=7200 $(run_tests) --integ test_overlay_large

.PHONY: test-package
test-package: ## what README.md tells a new user, on fresh Debian machines (as root, with mmdebstrap; some minutes)
	$(Q)scripts/fresh-root-test

# What others are compared with: an example of libfuse, of the source that scripts/bootstrap has built from. Where the
# system's libfuse is used there is no source, and the example is left out.
FUSE_EXAMPLE := $(wildcard build/deps/src/fuse3/example/passthrough_hp.cc)
PASSTHROUGH_HP := $(if $(FUSE_EXAMPLE),build/deps/passthrough_hp build/deps/passthrough_hp-killpriv)
build/deps/passthrough_hp build/deps/passthrough_hp-killpriv: build/deps/%: build/deps/src/%.cc
	$(call say,CXX,$@)
	$(Q)g++ -std=c++17 -O2 -w -DPACKAGE_VERSION='"$(FUSE_MIN)"' -Ibuild/deps/src/fuse3/example $(call pkg,--cflags fuse3) -o $@ $< \
		$(call pkg,--libs --static fuse3) -pthread
build/deps/src/passthrough_hp.cc: $(FUSE_EXAMPLE)
	$(Q)cp $< $@
# The same, but the kernel does not ask for security.capability before each write.
build/deps/src/passthrough_hp-killpriv.cc: $(FUSE_EXAMPLE)
	$(Q)sed '/conn->no_interrupt = 1;/a fuse_set_feature_flag(conn, FUSE_CAP_HANDLE_KILLPRIV_V2);' $< >$@
	$(Q)grep -q KILLPRIV_V2 $@

.PHONY: bench bench-compare bench-converge bench-handoff bench-restart bench-upgrade bench-memory bench-call
bench: all $(HELPER_FILES) $(BENCH_FILES) $(PASSTHROUGH_HP) ## all benchmarks (as root), JSON and plots in build/bench; QUICK=1: three minutes, and a look at the baseline
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' QUICK='$(QUICK)' $(if $(PARTS),PARTS='$(PARTS)') tests/bench/bench_all.sh
bench-compare: all $(HELPER_FILES) $(BENCH_FILES) $(PASSTHROUGH_HP) ## beside the file system itself, bindfs and passthrough_hp (QUICK=1 PARTS="ready calls data programs memory")
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' QUICK='$(QUICK)' $(if $(PARTS),PARTS='$(PARTS)') tests/bench/bench_compare.sh
bench-converge: all $(HELPER_FILES) $(BENCH_FILES) ## the walk against chown -R and chmod -R (FILES= ROUNDS= TYPES="ext4 xfs")
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' tests/bench/bench_converge.sh
bench-restart: all $(HELPER_FILES) ## the daemon of 500 volumes killed: how long until it answers (VOLUMES= OVERLAYS= ROUNDS=)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' tests/bench/bench_restart.sh
bench-upgrade: all $(HELPER_FILES) $(BENCH_FILES) ## how long users wait when another program takes over (NODES="1000 100000" ROUNDS=)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' tests/bench/bench_upgrade.sh
bench-memory: all $(HELPER_FILES) ## what a looked-up inode costs keeper, server and their shared memory (FILES=1000000)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' tests/bench/bench_memory.sh
bench-call: all $(HELPER_FILES) $(BENCH_FILES) ## one call of the FlexVolume driver on a live volume (COUNT= VOLUMES=)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' tests/bench/bench_call.sh
bench-handoff: all $(HELPER_FILES) $(BENCH_FILES) ## how long a hand-off holds up who opens files (CROWDS="0 200 1000" ROUNDS=)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' tests/bench/bench_handoff.sh

# Objects and programs of their own: the fuzzer wants clang, and everything to be watched.
FUZZ_SECONDS ?= 600
fuzz_programs = $(again) CC=clang CFLAGS='-O1 -g' SANITIZE=address,undefined,fuzzer-no-link OBJ=build/fuzz/obj \
	BIN=build/fuzz/bin TESTBIN=build/fuzz/tests fuzz-programs
.PHONY: fuzz test-fuzz fuzz-programs
fuzz: ## look for inputs that break a parser, FUZZ_SECONDS for each (FILTER=text selects)
	$(Q)+$(fuzz_programs)
	$(Q)FUZZ_SECONDS='$(FUZZ_SECONDS)' FILTER='$(FILTER)' scripts/run-fuzz build/fuzz/tests/fuzz
test-fuzz: ## the same for 20 seconds each
	$(Q)+$(fuzz_programs)
	$(Q)FUZZ_SECONDS=20 FILTER='$(FILTER)' scripts/run-fuzz build/fuzz/tests/fuzz
fuzz-programs: $(FUZZ_FILES)
COUNT ?=
SOAK_SECONDS ?= 3600
.PHONY: soak soak-failover soak-cycles
soak: test-programs ## compare the overlay with an eagerly changed tree for SOAK_SECONDS (as root)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' scripts/soak $(SOAK_SECONDS)
soak-failover: test-programs ## kill the server COUNT times under load (as root)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' scripts/soak-failover $(COUNT)
soak-cycles: test-programs ## mount and unmount COUNT volumes and see what grows (as root)
	$(Q)BIN='$(abspath $(BIN))' TESTBIN='$(abspath $(TESTBIN))' scripts/soak-cycles $(COUNT)

.PHONY: check-layers check-format check-warnings
check-layers: ## no include against the arrows between the rooms
	$(Q)scripts/check-layers --self-test
	$(Q)scripts/check-layers
FORMATTED = $(sort $(wildcard $(foreach d,fs fs/base fs/ownership store plugins mountd mountd/* tests/*,$(d)/*.c $(d)/*.h)))
check-format: ## all C files are formatted as .clang-format says
	$(Q)$(if $(FORMATTED),clang-format --dry-run -Werror $(FORMATTED))
check-warnings: ## everything compiles without a warning, with gcc and with clang
	$(Q)+$(foreach c,gcc clang,$(again) CC=$(c) WERROR=1 SANITIZE= OBJ=build/warn-$(c)/obj BIN=build/warn-$(c)/bin \
		TESTBIN=build/warn-$(c)/tests test-programs &&) true

# mount(8) and umount(8) look for these names too, once the volume is mounted.
MOUNT8_NAMES := mount.fuse.fsgroupfs umount.fuse.fsgroupfs
# What is installed, a row a file: MODE:SOURCE:DESTINATION; with "link" for a mode SOURCE is what a symbolic link says.
INSTALLED := \
	$(foreach p,$(filter-out fsgroup-mountd mount.fsgroupfs,$(PROGRAMS)),755:$(BIN)/$(p):$(bindir)/$(p)) \
	$(foreach p,$(filter fsgroup-mountd mount.fsgroupfs,$(PROGRAMS)),755:$(BIN)/$(p):$(sbindir)/$(p)) \
	$(foreach n,$(MOUNT8_NAMES),link:mount.fsgroupfs:$(sbindir)/$(n) link:mount.fsgroupfs.8:$(mandir)/man8/$(n).8) \
	$(if $(filter-out $(sbindir),$(mounthelperdir)),$(foreach n,mount.fsgroupfs $(MOUNT8_NAMES),link:$(sbindir)/$(n):$(mounthelperdir)/$(n))) \
	$(foreach d,README.md LICENSE mountd/PROTOCOL.md mountd/SCHEMA.md plugins/DEVICES.md plugins/PROGRAMS.md,644:$(d):$(docdir)/$(notdir $(d))) \
	$(foreach m,$(wildcard fs/man/* mountd/man/*),644:$(m):$(mandir)/man$(subst .,,$(suffix $(m)))/$(notdir $(m))) \
	644:$(BIN)/completion/bash:$(bashcompdir)/fsgroupctl 644:$(BIN)/completion/zsh:$(zshcompdir)/_fsgroupctl \
	644:mountd/mountd.conf.example:$(docdir)/examples/mountd.conf \
	644:mountd/systemd/fsgroup-mountd.socket:$(unitdir)/fsgroup-mountd.socket \
	644:$(OBJ)/fsgroup-mountd.service:$(unitdir)/fsgroup-mountd.service \
	755:plugins/examples/loop:$(docdir)/examples/loop
# Directories that are ours alone, inner ones first.
OWN_DIRS := $(docdir)/examples $(docdir)

.PHONY: install install-files uninstall
install: all ## install programs, manual pages and documents under DESTDIR and PREFIX
	$(Q)+$(again) install-files
# Written each time: it says where the daemon is installed.
$(OBJ)/fsgroup-mountd.service: mountd/systemd/fsgroup-mountd.service.in FORCE
	$(Q)mkdir -p $(@D)
	$(Q)sed 's|@sbindir@|$(sbindir)|' $< >$@
install-files: $(OBJ)/fsgroup-mountd.service # what was compiled already
	$(Q)DESTDIR='$(DESTDIR)' scripts/install-files $(INSTALLED)
uninstall: ## remove what install put there, and nothing else
	$(Q)DESTDIR='$(DESTDIR)' OWN_DIRS='$(OWN_DIRS)' scripts/install-files --remove $(INSTALLED)

.PHONY: deb
deb: all ## a Debian package, build/deb/fsgroupfs_VERSION_ARCHITECTURE.deb
	$(Q)BIN='$(abspath $(BIN))' scripts/make-deb

.PHONY: clean distclean help
clean: ## remove what was compiled, but not build/deps
	$(Q)if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} +; fi
distclean: ## remove build/ altogether
	$(Q)rm -rf build
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile
	@echo; sed -n '/^# Variables/,/^$$/s/^# \{0,1\}//p' Makefile

# --- rules ---

# Rewritten only when the command changes: other flags or another compiler compile everything again.
.PHONY: FORCE
$(OBJ)/command: FORCE
	$(shell mkdir -p $(@D))$(file >$@.new,$(COMPILE) | $(LINK))
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(OBJ)/%.o: %.c $(OBJ)/command
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(COMPILE) -MMD -MP -c -o $@ $<

define program_rule
$(BIN)/$(1): $(call objects,$($(1)_SRC))
	$$(call say,LD,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(LINK) -o $$@ $$^ $$($(1)_LIBS)
endef
$(foreach p,$(PROGRAMS),$(eval $(call program_rule,$(p))))

$(COMPLETIONS): $(BIN)/completion/%: $(BIN)/fsgroupctl
	$(Q)mkdir -p $(@D)
	$(Q)$< completion $* >$@

define archive_rule
$(OBJ)/lib$(1).a: $(call objects,$($(1)_SRC))
	$$(call say,AR,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)rm -f $$@ && $$(AR) rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call archive_rule,$(r))))

$(UNIT_FILES) $(INTEG_FILES) $(HELPER_FILES) $(BENCH_FILES): $(TESTBIN)/%: $(OBJ)/tests/%.o $(ARCHIVES)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $< $(ARCHIVES) $(TEST_LIBS)

$(FUZZ_FILES): $(TESTBIN)/%: $(OBJ)/tests/%.o $(ARCHIVES)
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -fsanitize=fuzzer -o $@ $< $(ARCHIVES) $(TEST_LIBS)

# The one test program of many files. It knows of the overlay only what the command line shows.
$(DIFFERENTIAL_FILE): $(call objects,$(DIFFERENTIAL_SRC)) $(OBJ)/libbase.a
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(LINK) -o $@ $^

.SECONDARY:
-include $(patsubst %.c,$(OBJ)/%.d,$(BASE_SRC) $(OWNERSHIP_SRC) $(FS_SRC) $(STORE_SRC) $(PLUGINS_SRC) $(MOUNTD_SRC) $(wildcard mountd/*/*.c) \
	$(UNIT_SRC) $(INTEG_SRC) $(HELPER_SRC) $(BENCH_SRC) $(DIFFERENTIAL_SRC))
