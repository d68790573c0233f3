package cell

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// recorded returns the records of a file in testdata.
func recorded(t testing.TB, file string) kept {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	store := kept{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " {")
		store[key] = "{" + value
	}
	return store
}

// FuzzRestore checks that Restore returns a working cell for any content of a record.
func FuzzRestore(f *testing.F) {
	store := recorded(f, "testdata/records.txt")
	for _, key := range slices.Sorted(maps.Keys(store)) {
		f.Add(key, store[key])
	}
	cluster := rich.cluster(f)
	f.Fuzz(func(t *testing.T, key, value string) {
		changed := maps.Clone(store)
		changed[key] = value
		c, _ := Restore(start+60, cluster, Options{}, changed.all)
		h := &harness{Cell: c, t: t, now: start + 60}
		h.report()
		h.Schedule(h.now)
		h.show()
		if _, err := h.Reconfigure(h.now+10, cluster); err != nil {
			t.Log(err) // nothing has changed then, and the following checks still hold
		}
		changed.take(c)
		h.Delete(h.now+20, caller("root"), DeleteRequest{Users: []string{"*"}, Force: true})
		changed.take(c)
	})
}
