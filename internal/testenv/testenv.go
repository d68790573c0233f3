// Package testenv checks the requirements of tests on the machine.
//
// Many tests use real parts: the kernel's cgroups, a real Grid Engine, a virtual machine. If the
// machine lacks one, the test skips and names it. So that a skip cannot hide a regression, machines
// that have a part, such as continuous integration, name it in EXECD_TEST_REQUIRE, a comma
// separated list; there the test fails instead.
//
// "make test-vm" starts virtual machines, which provide parts that a machine may lack, and runs
// tests in them (test/vm). A test that needs Guest or Systemd skips outside of a virtual machine if
// one can be started, even if EXECD_TEST_REQUIRE names the need.
//
// The package is for tests only. Its functions may be called from several
// goroutines, except that Require ends the calling test and so must run on the
// test's own goroutine.
package testenv

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The environment variables of tests.
const (
	// Env names the needs whose absence is a failure instead of a skip.
	Env = "EXECD_TEST_REQUIRE"
	// AskedEnv makes tests start virtual machines, which takes minutes; make test-vm
	// sets it.
	AskedEnv = "EXECD_TEST_VM"
	// SoakEnv enables the tests that take long; make soak sets it.
	SoakEnv = "EXECD_TEST_SOAK"
	// GuestEnv is set in virtual machines of test/vm.
	GuestEnv = "EXECD_VM"
	// CutPower is the output of a test in a guest that makes the guest lose its power, if the table of guests says so.
	CutPower = "cut the power now"
	// ProgramsEnv is the folder of execd and sge_shepherd-go on machines that cannot build them.
	ProgramsEnv = "EXECD_TEST_PROGRAMS"
	// PackagesEnv is the folder where make package has put the packages.
	PackagesEnv = "EXECD_TEST_PACKAGES"
	// OCSEnv is the SGE_ROOT of an installation of Open Cluster Scheduler; test/cluster then runs
	// with it instead of with Debian's Grid Engine.
	OCSEnv = "EXECD_TEST_OCS"
	// OCSSecurityEnv is the security_mode (bootstrap(5)) of these cells; none by default. The mode munge
	// needs a munged(8) that listens on its default socket, and the mode tls a directory /var/lib/ocs, over which
	// each cell mounts its own.
	OCSSecurityEnv = "EXECD_TEST_OCS_SECURITY"
)

// A Need is something that a machine has or lacks. Its value is the word used
// in EXECD_TEST_REQUIRE.
type Need string

// The needs that exist. Any other word in EXECD_TEST_REQUIRE is an error, so that a typing mistake
// does not disable the failures.
const (
	Root       Need = "root"       // uid 0 that may change users, mount and make namespaces
	GridEngine Need = "gridengine" // Debian's gridengine-master, -exec and -client
	OCS        Need = "ocs"        // an installation of Open Cluster Scheduler, which EXECD_TEST_OCS names; no part of CI
	Cgroup     Need = "cgroup"     // a cgroup hierarchy in which groups can be made
	Freezer    Need = "freezer"    // a cgroup hierarchy in which groups can be frozen
	Pids       Need = "pids"       // the hierarchy of controller pids of cgroup v1, in which groups can be made
	VM         Need = "vm"         // the programs for temporary virtual machines
	Guest      Need = "guest"      // the machine is such a virtual machine itself: tests may change its clock and its users
	Systemd    Need = "systemd"    // systemd as process 1
	Python     Need = "python"     // python3, for samples that are written in it
	Packages   Need = "packages"   // the packages of make package, and dpkg, rpm, systemd-analyze, gpg and ar to check them
	Network    Need = "network"    // ip and nsenter, to lay cables between network namespaces
	Curl       Need = "curl"       // curl and openssl, for the examples of docs/api.md
	Getent     Need = "getent"     // /usr/bin/getent, which tests replace
	Man        Need = "man"        // man(1) of man-db
	Csh        Need = "csh"        // tcsh
	Perl       Need = "perl"       // perl
	Tcl        Need = "tcl"        // tclsh
	Zsh        Need = "zsh"        // zsh
	Fish       Need = "fish"       // fish
	Loop       Need = "loop"       // loop devices, and mkfs.ext4 to make file systems for them
	Chromium   Need = "chromium"   // chromium, and npm for axe-core; no part of CI
	Lintian    Need = "lintian"    // lintian, which checks a .deb; no part of CI
	Promtool   Need = "promtool"   // promtool of Debian's prometheus, which checks alert rules; no part of CI
	Munge      Need = "munge"      // Debian's munge
	DRMAA      Need = "drmaa"      // a C compiler, and Debian's python3-drmaa
	Mypy       Need = "mypy"       // Debian's mypy, which checks the types of the Python module; no part of CI
	XML        Need = "xml"        // xmllint, and the schemas of Debian's gridengine-common
)

// inGuests are the needs that a machine does not have to meet if it can start guests: the tests then
// run in guests.
var inGuests = []Need{Guest, Systemd}

// PidsHierarchy is the directory in which tests with the need Pids make groups.
const PidsHierarchy = "/sys/fs/cgroup/pids"

// checks holds one function per need; it returns an error that names the missing part, or nil.
var checks = map[Need]func() error{
	Root:       checkRoot,
	GridEngine: checkGridEngine,
	OCS:        checkOCS,
	Cgroup:     checkCgroup,
	Freezer:    checkFreezer,
	Pids:       checkPids,
	VM:         checkVM,
	Guest:      checkGuest,
	Systemd:    checkSystemd,
	Python:     checkPython,
	Packages:   checkPackages,
	Network:    checkNetwork,
	Curl:       checkCurl,
	DRMAA:      checkDRMAA,
	XML:        checkXML,
	Getent:     checkGetent,
	Man:        checkProgram("man", "man-db"),
	Csh:        checkProgram("tcsh", "tcsh"),
	Perl:       checkProgram("perl", "perl"),
	Tcl:        checkProgram("tclsh", "tcl"),
	Zsh:        checkProgram("zsh", "zsh"),
	Fish:       checkProgram("fish", "fish"),
	Loop:       checkLoop,
	Chromium:   checkChromium,
	Lintian:    checkProgram("lintian", "lintian"),
	Mypy:       checkProgram("mypy", "mypy"),
	Promtool:   checkProgram("promtool", "prometheus"),
	Munge:      checkProgram(munged, "munge"),
}

// Require skips the test when the machine lacks one of needs, and fails it when
// EXECD_TEST_REQUIRE says that the machine must have it.
func Require(t testing.TB, needs ...Need) {
	t.Helper()
	required, err := parse(os.Getenv(Env))
	if err != nil {
		t.Fatal(err)
	}
	fatal, reason := decide(required, needs, func(n Need) error { return checks[n]() })
	switch {
	case fatal:
		t.Fatal(reason)
	case reason != "":
		t.Skip(reason)
	}
}

// Soak skips a long test unless soak tests are requested: make soak does so, and runs the tests
// named TestSoak....
func Soak(t testing.TB) {
	t.Helper()
	if os.Getenv(SoakEnv) == "" {
		t.Skipf("takes long: make soak runs it, or set %s=1", SoakEnv)
	}
}

// RequireGuests calls Require(t, VM) for a test that starts virtual machines. It skips the test if
// virtual machines have not been requested.
func RequireGuests(t testing.TB) {
	t.Helper()
	if os.Getenv(AskedEnv) == "" {
		t.Skip("starts virtual machines, which make test-vm asks for")
	}
	Require(t, VM)
}

// decide makes the decision of Require: check reports missing needs. A missing need that is
// required takes precedence over one that only skips.
func decide(required, needs []Need, check func(Need) error) (fatal bool, reason string) {
	for _, n := range needs {
		err := check(n)
		if err == nil {
			continue
		}
		if slices.Contains(inGuests, n) && check(Guest) != nil && check(VM) == nil {
			err = fmt.Errorf("%w; make test-vm has guests for it", err)
		} else if slices.Contains(required, n) {
			return true, fmt.Sprintf("%s names %q, but this machine lacks it: %v", Env, n, err)
		}
		if reason == "" {
			reason = fmt.Sprintf("needs %s: %v", n, err)
		}
	}
	return false, reason
}

// parse reads the value of EXECD_TEST_REQUIRE.
func parse(value string) ([]Need, error) {
	var needs []Need
	for word := range strings.SplitSeq(value, ",") {
		n := Need(strings.TrimSpace(word))
		if n == "" {
			continue
		}
		if _, known := checks[n]; !known {
			return nil, fmt.Errorf("cannot use %s=%q: %q is not one of %v", Env, value, n, names())
		}
		needs = append(needs, n)
	}
	return needs, nil
}

// names lists every word that EXECD_TEST_REQUIRE may hold, in a stable order.
func names() []Need {
	var all []Need
	for n := range checks {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}
