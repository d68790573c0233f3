package guest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// list reads an archive as the kernel does.
func list(t *testing.T, b []byte) []string {
	t.Helper()
	var entries []string
	for len(b) > 0 {
		field := func(i int) int {
			n, err := strconv.ParseInt(string(b[6+8*i:14+8*i]), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		if string(b[:6]) != "070701" {
			t.Fatalf("no entry begins with %q", b[:6])
		}
		mode, uid, gid, size, length := field(1), field(2), field(3), field(6), field(11)
		name := string(b[110 : 110+length-1])
		begin := (110 + length + 3) &^ 3
		content := b[begin : begin+size]
		b = b[(begin+size+3)&^3:]
		if name == "TRAILER!!!" {
			if len(b) > 0 {
				entries = append(entries, fmt.Sprintf("and %d bytes", len(b)))
			}
			break
		}
		entries = append(entries, fmt.Sprintf("%s %o %d:%d %q", name, mode, uid, gid, content))
	}
	return entries
}

func TestArchive(t *testing.T) {
	host := t.TempDir()
	if err := os.MkdirAll(host+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(host+"/sub/file", []byte("12345"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub/file", host+"/link"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	a := newArchive(&b, map[string]string{"/bin": "/usr/bin"})
	a.text("/bin/deep/tool", 0o755, "#!")
	a.link("/init", "bin/tool")
	a.dir("/tmp", 0o1777, owner{1, 2})
	a.tree("/tmp/host", host)
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`usr 40755 0:0 ""`, `usr/bin 40755 0:0 ""`, `usr/bin/deep 40755 0:0 ""`, `usr/bin/deep/tool 100755 0:0 "#!"`,
		`init 120777 0:0 "bin/tool"`, `tmp 41777 1:2 ""`, `tmp/host 40755 0:0 ""`,
		`tmp/host/link 100640 0:0 "12345"`, `tmp/host/sub 40755 0:0 ""`, `tmp/host/sub/file 100640 0:0 "12345"`,
	}
	if got := list(t, b.Bytes()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestArchiveSaysWhatItCannotCopy(t *testing.T) {
	a := newArchive(&bytes.Buffer{}, nil)
	a.tree("/x", filepath.Join(t.TempDir(), "nothing"))
	if err := a.close(); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("close = %v", err)
	}
}

func TestUserlandIsThinnedOut(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./usr/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./usr/bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./usr/bin/su", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 3, Gid: 4, Size: 3},
		{Name: "./usr/bin/perl5.36", Typeflag: tar.TypeReg, Mode: 0o755, Size: 3},
		{Name: "./usr/bin/other", Typeflag: tar.TypeLink, Linkname: "./usr/bin/su", Mode: 0o755},
		{Name: "./usr/share/doc/a/b", Typeflag: tar.TypeReg, Mode: 0o644, Size: 3},
		{Name: "./lib", Typeflag: tar.TypeSymlink, Linkname: "usr/lib"},
		{Name: "./dev/null", Typeflag: tar.TypeChar},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("abc")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "cpio")
	if err := convert(&b, name); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`usr 40755 0:0 ""`, `usr/bin 40755 0:0 ""`, `usr/bin/su 104755 3:4 "abc"`,
		`usr/bin/other 120777 0:0 "/usr/bin/su"`, `lib 120777 0:0 "usr/lib"`,
	}
	if got := list(t, text); !slices.Equal(got, want) || len(text)%4 != 0 {
		t.Errorf("%d bytes:\n%s\nwant\n%s", len(text), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
