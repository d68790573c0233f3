package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// moduleRoot is the path of the module root for this package's tests.
const moduleRoot = "../.."

// builder builds the programs that run in guests, each once. They are static: a guest has another C
// library or none. Several goroutines may use it.
type builder struct {
	dir string

	mu   sync.Mutex // held while a program is built
	done map[string]string
}

// test builds the tests of a package.
func (b *builder) test(t *testing.T, pkg string, failpoints bool) string {
	t.Helper()
	out, tags := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-")+".test"), ""
	if failpoints {
		out, tags = out+".failpoint", "failpoint"
	}
	return b.build(t, out, "test", "-c", "-trimpath", "-tags", tags, "-o", out, "./"+pkg)
}

// programs builds the executables, and returns their directory.
func (b *builder) programs(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(b.dir, "bin")
	for name, pkg := range map[string]string{
		"execd": "./cmd/execd", "execd-launcher": "./cmd/launcher", "sge_shepherd-go": "./cmd/shepherd",
		"probe": "./test/shepherd/probe", "payload": "./test/payload",
	} {
		out := filepath.Join(dir, name)
		b.build(t, out, "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	}
	return dir
}

func (b *builder) build(t *testing.T, out string, args ...string) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done[out] != "" {
		return out
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = moduleRoot
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cannot build what runs in guests: %s: %v\n%s", cmd, err, text)
	}
	if _, err := os.Stat(out); err != nil {
		t.Fatalf("cannot build what runs in guests: %s: %v", cmd, err)
	}
	if b.done == nil {
		b.done = map[string]string{}
	}
	b.done[out] = out
	return out
}

// gridEngine returns the files of this machine's Grid Engine, for a guest, including the libraries
// of executables.
func gridEngine(t *testing.T) map[string]string {
	t.Helper()
	const share = "/usr/share/gridengine"
	files := map[string]string{share: share}
	list, err := filepath.Glob(testenv.GridEngineDir + "/*")
	if err != nil || len(list) == 0 {
		t.Fatalf("there is nothing in %s: %v", testenv.GridEngineDir, err)
	}
	for _, path := range list {
		files[path] = path
	}
	return files
}
