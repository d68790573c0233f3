package qstat

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// schemaOf returns the schema of a document, by the name of its file, in Debian's gridengine-common.
func schemaOf(path, text string) string {
	name := filepath.Base(path)
	switch {
	case strings.HasPrefix(name, "qhost"):
		return "qhost/qhost"
	case strings.HasPrefix(name, "qquota"):
		return "qquota/qquota"
	case strings.HasPrefix(name, "qrstat"):
		return "qrstat/qrstat"
	case strings.Contains(text, "<message"):
		return "qstat/message"
	case strings.Contains(text, "<detailed_job_info"):
		return "qstat/detailed_job_info"
	}
	return "qstat/qstat"
}

// against are the ways in which documents of the original do not follow its own schemas, by
// what xmllint says. Ours are the same to the letter (TestRecorded...): who reads them knows
// no others.
var against = map[string]string{
	`Element 'slots_resv': This element is not expected`:                    "queue instances have slots_resv, which the schema forgets",
	`Element 'full_job_name': This element is not expected`:                 "qstat -r prints full_job_name, which the schema forgets",
	`Element 'queue': This element is not expected`:                         "qhost -q: the schema has queues without an element of their own",
	`Element 'job': This element is not expected`:                           "qhost -j: likewise jobs",
	`is not a valid value of the atomic type 'xs:unsignedInt'`:              "negative priorities, and large contributions in scientific notation",
	`Element 'detailed_job_info': No matching global declaration available`: "the schema of qstat -j has another root",
	`Element 'qrstat': No matching global declaration available`:            "the schema of qrstat has another root",
	`Element 'job_info': No matching global declaration available`:          "the schema has no summary of cluster queues",
	`Element 'element': This element is not expected`:                       "messages of the scheduler stand in elements",
}

var (
	rootNamespace = regexp.MustCompile(`xmlns(?::xsd)?="[^"]*"`)
	target        = regexp.MustCompile(`targetNamespace="([^"]*)"`)
	namespace     = regexp.MustCompile(`\{[^}]*\}`)
)

// TestXMLMatchesDebiansSchemas checks the documents with xmllint against the schemas that Debian
// ships. The original names the schema in an attribute with the wrong name; the test corrects it.
func TestXMLMatchesDebiansSchemas(t *testing.T) {
	testenv.Require(t, testenv.XML)
	met := map[string]bool{}
	valid, all := 0, 0
	paths, err := filepath.Glob("testdata/*/*.xml")
	if err != nil || len(paths) == 0 {
		t.Fatal(err)
	}
	for _, path := range paths {
		text := repaired.Replace(read(t, path))
		schema := filepath.Join(testenv.SchemaDir, schemaOf(path, text)+".xsd")
		source, err := os.ReadFile(schema)
		if err != nil {
			t.Fatal(err)
		}
		ns := target.FindSubmatch(source)
		if ns == nil {
			t.Fatalf("%s has no target", schema)
		}
		if at := rootNamespace.FindStringIndex(text); at != nil {
			text = text[:at[0]] + `xmlns="` + string(ns[1]) + `"` + text[at[1]:]
		}
		all++
		complaints := lint(t, schema, text)
		if len(complaints) == 0 {
			valid++
		}
		for _, c := range complaints {
			i := slices.IndexFunc(sortedKeys(against), func(k string) bool { return strings.Contains(c, k) })
			if i < 0 {
				t.Errorf("%s: %s", path, c)
				continue
			}
			met[sortedKeys(against)[i]] = true
		}
	}
	for _, k := range sortedKeys(against) {
		if !met[k] {
			t.Errorf("nothing is against the schemas in this way any more: %s", k)
		}
	}
	t.Logf("%d of %d documents follow their schema", valid, all)
}

func sortedKeys(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// lint returns the errors that xmllint reports for a document.
func lint(t *testing.T, schema, text string) (complaints []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "xmllint", "--noout", "--nonet", "--schema", schema, "-")
	cmd.Stdin = strings.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	for l := range strings.Lines(namespace.ReplaceAllString(stderr.String(), "")) {
		if strings.Contains(l, "error") {
			complaints = append(complaints, strings.TrimSpace(l))
		}
	}
	return complaints
}
