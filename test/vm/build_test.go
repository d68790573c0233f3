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

// moduleRoot as seen from this package's tests.
const moduleRoot = "../.."

// builder builds the programs that run in guests, each once. They are static: a guest has
// no C library, or another one. Several goroutines may use it.
type builder struct {
	dir string

	mu   sync.Mutex // held while a program is built
	done map[string]string
}

// test builds the tests of a package.
func (b *builder) test(t *testing.T, pkg string) string {
	t.Helper()
	out := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	return b.build(t, out, "test", "-c", "-trimpath", "-o", out, "./"+pkg)
}

// programs builds the executables, and returns the folder in which they are.
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

// gridEngine is what there is of the real Grid Engine on this machine, as files of a guest:
// the libraries of executables come along, where each is a file of its own.
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
