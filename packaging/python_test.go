package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
)

// TestPythonPackages imports the Python module from its wheel and from its Debian package.
func TestPythonPackages(t *testing.T) {
	testenv.Require(t, testenv.Python)
	wheel, deb := one(t, "execd_client-*-py3-none-any.whl"), one(t, "python3-execd-client_*.deb")
	imported := func(path string) string {
		t.Helper()
		const program = "import sys; sys.path.insert(0, sys.argv[1]); import execd_client; print(execd_client.__file__)\n" +
			"import importlib.metadata as m; print(*[d.version for d in m.distributions(path=[sys.argv[1]])])"
		return output(t, "python3", "-B", "-c", program, path)
	}
	version := strings.TrimSpace(output(t, "dpkg-deb", "-f", one(t, "execd_*.deb"), "Version"))
	root := t.TempDir()
	output(t, "python3", "-m", "zipfile", "-e", wheel, root)
	if got, want := imported(root), filepath.Join(root, "execd_client/__init__.py")+"\n"+version+"\n"; got != want {
		t.Errorf("imported %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(root, "execd_client/py.typed")); err != nil {
		t.Errorf("the wheel: %v", err) // without it, type checkers ignore the annotations
	}

	root = t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	module := filepath.Join(root, "usr/lib/python3/dist-packages")
	if got, want := imported(module), filepath.Join(module, "execd_client/__init__.py")+"\n"; !strings.HasPrefix(got, want) {
		t.Errorf("imported %q, want %q", got, want)
	}
	var got []string
	for path := range tree(t, root) {
		if name := filepath.Base(path); path != "" && (strings.Contains(name, ".") || name == "copyright") {
			got = append(got, path)
		}
	}
	slices.Sort(got)
	const doc = "/usr/share/doc/python3-execd-client/"
	want := []string{
		"/usr/lib/python3/dist-packages/execd_client/__init__.py", "/usr/lib/python3/dist-packages/execd_client/py.typed",
		doc + "README.md", doc + "changelog.gz", doc + "copyright",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the .deb has (+), expected (-):\n%s", diff)
	}
	if out, err := exec.Command("dpkg-deb", "-f", deb, "Version").Output(); err != nil || strings.TrimSpace(string(out)) != version {
		t.Errorf("the .deb has version %q (%v), want %q", out, err, version)
	}
}
