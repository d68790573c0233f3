package packaging

import (
	"debug/buildinfo"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
)

// TestBillOfMaterials compares the bills in the package with what the executables in
// the package were linked from.
func TestBillOfMaterials(t *testing.T) {
	deb := one(t, "execd_*.deb")
	root := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	for _, program := range []string{"execd", "execd-launcher", "sge_shepherd-go"} {
		info, err := buildinfo.ReadFile(root + "/usr/lib/execd/" + program)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"std@" + strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			want = append(want, m.Path+"@"+m.Version)
		}
		text, err := os.ReadFile(root + "/usr/share/doc/execd/" + program + ".cdx.json")
		if err != nil {
			t.Fatal(err)
		}
		var bill struct {
			BOMFormat string
			Metadata  struct {
				Component struct{ Name, Version string }
			}
			Components []struct{ Name, Version, PURL string }
		}
		if err := json.Unmarshal(text, &bill); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range bill.Components {
			got = append(got, c.Name+"@"+c.Version)
			if purl := "pkg:golang/" + c.Name + "@" + strings.ReplaceAll(c.Version, "+", "%2B"); c.PURL != purl {
				t.Errorf("%s: the package URL of %s is %q, want %q", program, c.Name, c.PURL, purl)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s links (-), its bill has (+):\n%s", program, diff)
		}
		version := strings.TrimSpace(output(t, "dpkg-deb", "-f", deb, "Version"))
		if main := bill.Metadata.Component; bill.BOMFormat != "CycloneDX" || main.Name != program || main.Version != version {
			t.Errorf("the bill of %s is %s of %s %s", program, bill.BOMFormat, main.Name, main.Version)
		}
	}
}

// TestSigned makes packages with a key of its own, and has gpg and rpm verify them.
func TestSigned(t *testing.T) {
	testenv.Require(t, testenv.Packages)
	dir := t.TempDir()
	home := dir + "/gnupg"
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	gpg := func(args ...string) string {
		t.Helper()
		return output(t, "gpg", append([]string{"--homedir", home, "--batch", "--quiet", "--passphrase", ""}, args...)...)
	}
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	gpg("--quick-gen-key", "packages@execd.invalid", "rsa3072", "sign", "never")
	secret, public := dir+"/secret.asc", dir+"/public.asc"
	gpg("--armor", "--output", secret, "--export-secret-keys")
	gpg("--armor", "--output", public, "--export")
	// Not on the output of make build: other tests read it.
	config, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	small := strings.ReplaceAll(string(config), "src: bin/", "src: "+dir+"/bin/")
	for _, name := range []string{
		"execd", "execd-launcher", "sge_shepherd-go", "package/execd.cdx.json", "package/execd-launcher.cdx.json", "package/sge_shepherd-go.cdx.json", "package/execd-standalone.service", "package/changelog.gz",
		"package/completion/execd.bash", "package/completion/execd.zsh", "package/completion/execd.fish", "package/man/x.1.gz", "package/man/x.5.gz", "package/man/x.7.gz", "package/man/x.8.gz",
	} {
		path := filepath.Join(dir, "bin", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"/nfpm.yaml", []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"deb", "rpm"} {
		cmd := exec.Command("go", "tool", "-modfile=packaging/tools.mod", "nfpm", "package",
			"-f", dir+"/nfpm.yaml", "-p", format, "-t", dir)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "PACKAGE_VERSION=1.2.3", "PACKAGE_ARCH=amd64", "PACKAGE_KEY="+secret)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("nfpm: %v\n%s", err, out)
		}
	}
	find := func(pattern string) string {
		paths, err := fs.Glob(os.DirFS(dir), pattern)
		if err != nil || len(paths) != 1 {
			t.Fatalf("%s: %q (%v)", pattern, paths, err)
		}
		return filepath.Join(dir, paths[0])
	}

	db := "--dbpath=" + dir + "/rpmdb"
	output(t, "rpm", db, "--import", public)
	if out := output(t, "rpm", db, "-K", find("*.rpm")); !strings.HasSuffix(out, ": digests signatures OK\n") {
		t.Errorf("rpm -K: %s", out)
	}

	// debsig-verify checks the same: the signature is over all other members.
	deb := find("*.deb")
	members := strings.Fields(output(t, "ar", "t", deb))
	if i := slices.Index(members, "_gpgorigin"); i < 0 {
		t.Fatalf("the .deb has the members %q", members)
	}
	output(t, "ar", "x", "--output", dir, deb)
	var signed []byte
	for _, m := range members {
		if m == "_gpgorigin" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, m))
		if err != nil {
			t.Fatal(err)
		}
		signed = append(signed, b...)
	}
	if err := os.WriteFile(dir+"/signed", signed, 0o644); err != nil {
		t.Fatal(err)
	}
	gpg("--verify", dir+"/_gpgorigin", dir+"/signed")
	signed[len(signed)-9] ^= 1
	if err := os.WriteFile(dir+"/signed", signed, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gpg", "--homedir", home, "--batch", "--verify", dir+"/_gpgorigin", dir+"/signed").CombinedOutput(); err == nil {
		t.Errorf("a package that was changed verifies:\n%s", out)
	}
}
