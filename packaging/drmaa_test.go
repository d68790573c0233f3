package packaging

import (
	"debug/elf"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
)

// The files of both packages of the DRMAA library.
var drmaaFiles = []string{
	"/usr/lib/execd/include", "/usr/lib/execd/include/drmaa.h",
	"/usr/lib/execd/lib", "/usr/lib/execd/lib/libdrmaa.so", "/usr/lib/execd/lib/libdrmaa.so.1.0",
}

// drmaaGlibc is the oldest version of the GNU C library that packaging/nfpm-drmaa.yaml allows.
const drmaaGlibc = "2.34"

// TestDRMAAPackages compares the files and the dependencies of the packages with what is expected.
func TestDRMAAPackages(t *testing.T) {
	deb, rpm := one(t, "execd-drmaa_*.deb"), one(t, "execd-drmaa-[0-9]*.rpm")
	root := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	var got []string
	for path := range tree(t, root) {
		got = append(got, path)
	}
	got = slices.DeleteFunc(got, func(path string) bool {
		return slices.Contains([]string{"", "/usr", "/usr/lib", "/usr/lib/execd", "/usr/share", "/usr/share/doc"}, path)
	})
	const doc = "/usr/share/doc/execd-drmaa"
	want := slices.Concat(drmaaFiles, []string{doc, doc + "/changelog.gz", doc + "/copyright"})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the .deb has (+), expected (-):\n%s", diff)
	}
	got = strings.Fields(output(t, "rpm", "-qpl", rpm))
	const license = "/usr/share/licenses/execd-drmaa"
	if diff := cmp.Diff(slices.Concat(drmaaFiles, []string{license, license + "/LICENSE"}), got); diff != "" {
		t.Errorf("the .rpm has (+), expected (-):\n%s", diff)
	}
	version := strings.TrimSpace(output(t, "dpkg-deb", "-f", one(t, "execd_*.deb"), "Version"))
	if d := strings.TrimSpace(output(t, "dpkg-deb", "-f", deb, "Depends")); d != "execd (= "+version+"), libc6 (>= "+drmaaGlibc+")" {
		t.Errorf("the .deb depends on %q", d)
	}
	if r := strings.Split(output(t, "rpm", "-qpR", rpm), "\n"); !slices.Contains(r, "execd = "+version) || !slices.Contains(r, "glibc >= "+drmaaGlibc) {
		t.Errorf("the .rpm requires %q", r)
	}

	library, err := elf.Open(root + "/usr/lib/execd/lib/libdrmaa.so.1.0")
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	if needed, err := library.ImportedLibraries(); err != nil || !slices.Equal(needed, []string{"libc.so.6"}) {
		t.Errorf("the library needs %q (%v)", needed, err)
	}
	symbols, err := library.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if v, ok := strings.CutPrefix(s.Version, "GLIBC_"); ok && exec.Command("dpkg", "--compare-versions", v, "gt", drmaaGlibc).Run() == nil {
			t.Errorf("%s is of version %s", s.Name, v)
		}
	}
}

// TestInstallDRMAA installs both packages below a scratch directory. There the library finds its helper:
// only that refuses a contact string.
func TestInstallDRMAA(t *testing.T) {
	testenv.Require(t, testenv.Python)
	execd, library := one(t, "execd_*.deb"), one(t, "execd-drmaa_*.deb")
	root := t.TempDir()
	for _, deb := range []string{execd, library} {
		output(t, "dpkg-deb", "-x", deb, root)
	}
	const program = `
import ctypes, sys
text = ctypes.create_string_buffer(1024)
code = ctypes.CDLL(sys.argv[1]).drmaa_init(b"nonsense", text, ctypes.c_size_t(1024))
print(code, text.value.decode())`
	cmd := exec.Command("python3", "-c", program, root+"/usr/lib/execd/lib/libdrmaa.so")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	const invalidContact = "7 invalid contact string \"nonsense\""
	if err != nil || !strings.HasPrefix(string(out), invalidContact) {
		t.Errorf("%q (%v), expected %q", out, err, invalidContact)
	}
}
