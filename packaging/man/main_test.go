package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/cell/command"
)

const pages = "../../docs/man/commands"

// TestPagesHaveTheOptions compares the pages with the tables of the commands.
func TestPagesHaveTheOptions(t *testing.T) {
	var named []string
	paths, err := filepath.Glob(pages + "/*.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".1")
		named = append(named, name)
		page, err := withOptions(text)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if !bytes.Equal(page, text) {
			t.Errorf("%s does not have the options of %s: run make man", path, name)
		}
		if !bytes.Contains(text, []byte(`.\" options of `+name+"\n")) {
			t.Errorf("%s has the options of another command", path)
		}
		if !bytes.Contains(text, []byte("\n.Nm "+name+"\n.Nd ")) {
			t.Errorf("%s has no line for whatis(1)", path)
		}
	}
	slices.Sort(named)
	if want := command.Names(); !slices.Equal(named, want) {
		t.Errorf("there are pages of %q, want %q", named, want)
	}
}

func TestInvalidPagesAreRefused(t *testing.T) {
	for page, want := range map[string]string{
		"":                        `no lines '.\" options of NAME'`,
		".\\\" options of qsub\n": "no lines",
		".\\\" options of qnone\n.\\\" end of options\n": `"qnone" is not a command`,
	} {
		if _, err := withOptions([]byte(page)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", page, err, want)
		}
	}
	if err := update(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no manual pages") {
		t.Errorf("an empty directory: %v", err)
	}
}
