package jobdir

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/job"
)

func TestSeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record := append(rapid.SliceOf(rapid.ByteRange(' ', 'z')).Draw(t, "record"), '\n')
		var files []File
		for range rapid.IntRange(1, 4).Draw(t, "files") {
			files = append(files, File{rapid.StringMatching(`[a-z_]{1,8}`).Draw(t, "name"), rapid.SliceOf(rapid.Byte()).Draw(t, "data")})
		}
		text := seal(record, files)
		gotRecord, gotFiles, ok := unseal(text)
		if !ok || string(gotRecord) != string(record) {
			t.Fatalf("%q, %v of %q", gotRecord, ok, text)
		}
		same := func(a, b []byte) bool { return string(a) == string(b) }
		if diff := cmp.Diff(files, gotFiles, cmp.Comparer(same)); diff != "" {
			t.Fatal(diff)
		}
		if n := rapid.IntRange(len(record)+1, len(text)-1).Draw(t, "cut"); n > 0 {
			if _, _, ok := unseal(text[:n]); ok {
				t.Fatalf("%q is taken, of %q", text[:n], text)
			}
		}
		at := rapid.IntRange(len(record), len(text)-2).Draw(t, "at")
		text[at] ^= 1 << rapid.IntRange(0, 4).Draw(t, "bit") // not one that turns a hexadecimal letter into another of the same value
		if _, files, ok := unseal(text); ok && len(files) > 0 {
			t.Fatalf("%q is taken", text)
		}
	})
	for text, ok := range map[string]bool{
		"": true, "by itself, of an older version\n": true, "of a line": true,
		"a\nfile b 99999999999999999999\n": false, "a\nfile b -1\n": false, "a\nfile b 3\nabc": false, "a\n{}\n": false,
	} {
		if _, _, got := unseal([]byte(text)); got != ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestRecordsOfSeveralLines checks that a record cannot add files to those that Restore writes.
func TestRecordsOfSeveralLines(t *testing.T) {
	s := newSpool(t)
	for _, record := range []string{"", "{}", "{}\nfile config 2\na\n\n", "{}\n\n"} {
		if _, err := s.Create(simple(job.ID{Job: 7}), CreateOptions{Record: []byte(record)}); err == nil {
			t.Errorf("the record %q is written", record)
		}
	}
	if ids, err := s.Jobs(); len(ids) > 0 || err != nil {
		t.Errorf("a directory is left: %v, %v", ids, err)
	}
}

// TestStartFileRestoresAllFiles checks that all files of an accepted job can be rebuilt from the
// file "start", the only one that is certainly on the disk.
func TestStartFileRestoresAllFiles(t *testing.T) {
	s := newSpool(t)
	d := simple(job.ID{Job: 7})
	d.Command.Args = []string{"a\nb"}
	own := File{"launch", []byte("boot=x\n")}
	dir, err := s.Create(d, CreateOptions{Record: []byte("{}\n"), Files: []File{own}})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	record, files, err := dir.Start()
	if err != nil || string(record) != "{}\n" || len(files) != 4 || files[0].Name != "launch" || files[3].Name != FileConfig {
		t.Fatalf("%q, %+v, %v", record, files, err)
	}
	want, err := dir.Description()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{FileEnvironment, FileArguments} {
		if err := dir.WriteFile(name, []byte("what was in that block before")); err != nil {
			t.Fatal(err)
		}
	}
	if err := dir.Remove(FileConfig); err != nil {
		t.Fatal(err)
	}
	if err := dir.Restore(files); err != nil {
		t.Fatal(err)
	}
	got, err := dir.Description()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// A directory whose removal has begun is not restored.
	s.fault = func(step string) error {
		if step == "remove the rest" {
			return errors.New("the power is gone")
		}
		return nil
	}
	_ = s.Remove(d.ID, KeepNone, false)
	if _, _, err := dir.Start(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a removed job would be made of is still there: %v", err)
	}
}
