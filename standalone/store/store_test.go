package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/standalone/store"
)

func open(t *testing.T, path string) *store.Store {
	t.Helper()
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func commit(t *testing.T, s *store.Store, changes ...store.Change) {
	t.Helper()
	if err := s.Commit(changes); err != nil {
		t.Fatal(err)
	}
}

func put(key, value string) store.Change {
	return store.Change{Key: key, Value: []byte(value)}
}

// all are the records with a prefix, as "key=value" and in their order.
func all(t *testing.T, s *store.Store, prefix string) string {
	t.Helper()
	var list []string
	for key, value := range s.All(prefix) {
		list = append(list, key+"="+string(value))
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(list, " ")
}

func TestWhatIsCommittedIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	if got := all(t, s, ""); got != "" {
		t.Errorf("a new one has %q", got)
	}
	commit(t, s)
	commit(t, s, put("job/2", "two"), put("task/1", ""), put("job/1", "one"), put("jo", "x"))
	commit(t, s, put("job/1", "ONE"), store.Change{Key: "job/3"}, put("job/4", "x"), store.Change{Key: "job/4"}, store.Change{Key: "jo"})
	check := func(s *store.Store) {
		t.Helper()
		for prefix, want := range map[string]string{"": "job/1=ONE job/2=two task/1=", "job/": "job/1=ONE job/2=two", "job/2": "job/2=two", "k": "", "x": ""} {
			if got := all(t, s, prefix); got != want {
				t.Errorf("with %q: %q, expected %q", prefix, got, want)
			}
		}
	}
	check(s)
	for range s.All("") {
		break
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, path))
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 1 || err != nil {
		t.Errorf("beside it: %v, %v", entries, err)
	}
}

// TestALoopIsOfAMoment checks that a loop sees the records of the moment when it began, and may
// keep the values that it gets.
func TestALoopIsOfAMoment(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store"))
	for i := range 100 {
		commit(t, s, put(fmt.Sprintf("k%03d", i), "v"))
	}
	done := make(chan error)
	var values [][]byte
	for key, value := range s.All("") {
		if key == "k000" {
			go func() { done <- s.Commit([]store.Change{{Key: "k050"}, put("k051", "changed")}) }()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		values = append(values, value)
	}
	if len(values) != 100 || string(values[51]) != "v" {
		t.Errorf("%d values, %q", len(values), values[51])
	}
	values[0][0] = 'x'
	if got := all(t, s, "k05"); !strings.HasPrefix(got, "k051=changed k052=v") {
		t.Error(got)
	}
}

func TestWhatCannotBeStored(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "store"))
	for name, change := range map[string]store.Change{"no key": put("", "x"), "a long key": put(strings.Repeat("k", 1<<16), "x")} {
		if err := s.Commit([]store.Change{put("a", "b"), change}); err == nil || !strings.Contains(err.Error(), "the record") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := all(t, s, ""); got != "" {
		t.Errorf("half of a commit is there: %q", got)
	}
}

// TestPermissionsAreTakenBack checks that a file that other users can read is made unreadable to
// them.
func TestPermissionsAreTakenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	open(t, path)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestWhatIsNoStore(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	other := filepath.Join(dir, "other")
	db, err := bbolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		write("empty", ""):                           "it is damaged: it is empty",
		write("text", strings.Repeat("text\n", 9)):   "it is damaged: neither of its first pages is valid",
		write("long", strings.Repeat("text\n", 1e5)): "it is damaged: neither of its first pages is valid",
		other:                                 "it is damaged: it is no store of records",
		dir:                                   "is a directory",
		filepath.Join(dir, "no", "directory"): "no such file or directory",
	} {
		before, _ := os.ReadFile(path)
		s, err := store.Open(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("%q", path)) {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
		if s != nil {
			t.Errorf("%s: it is open", path)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s was changed", path)
		}
	}
}

// TestNewerFormat checks that the file of a newer version is refused because of the number of its
// format.
func TestNewerFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	commit(t, s, put("a", "b"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("about")).Put([]byte("format"), []byte("3")) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(path)
	if err == nil || !strings.Contains(err.Error(), "it has the format 3, and this program knows formats up to 2") {
		t.Error(err)
	}
	if _, damaged := errors.AsType[*store.DamagedError](err); damaged {
		t.Error("that is no damage")
	}
}

// sample returns a file with many records, in a folder of its own. before is what was there
// before the last commit.
func sample(t *testing.T) (path, before, records string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	for i := range 40 {
		var changes []store.Change
		for k := range 20 {
			changes = append(changes, put(fmt.Sprintf("job/%03d", i*7+k*3), strings.Repeat(fmt.Sprint(i), 40+k)))
		}
		before = all(t, s, "")
		commit(t, s, append(changes, store.Change{Key: fmt.Sprintf("job/%03d", i)})...)
	}
	records = all(t, s, "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, before, records
}

// TestDamage damages the file at each place. Either the store reports the damage, or all records
// are correct.
func TestDamage(t *testing.T) {
	path, before, want := sample(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy")
	random := rand.New(rand.NewPCG(1, 2))
	damages := map[string]func([]byte) []byte{}
	for range 40 {
		n := random.IntN(len(whole))
		damages[fmt.Sprintf("cut off after %d bytes", n)] = func(b []byte) []byte { return b[:n] }
	}
	for range 400 {
		at, bit := random.IntN(len(whole)), random.IntN(8)
		damages[fmt.Sprintf("bit %d of byte %d", bit, at)] = func(b []byte) []byte { b[at] ^= 1 << bit; return b }
	}
	for range 60 {
		at := random.IntN(len(whole)/512) * 512
		damages[fmt.Sprintf("zeros at %d", at)] = func(b []byte) []byte { clear(b[at : at+512]); return b }
	}
	found := 0
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		if err := os.WriteFile(copied, damages[name](bytes.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(copied)
		if err != nil {
			if d, ok := errors.AsType[*store.DamagedError](err); !ok || d.Path != copied || !strings.Contains(err.Error(), "from a backup") {
				t.Errorf("%s: %v", name, err)
			}
			found++
			continue
		}
		// What was damaged was not in use, or it was the first page that counts: then the
		// last commit is not there.
		if got := all(t, s, ""); got != want && got != before {
			t.Errorf("%s: there are other records", name)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Attr("damages-found", fmt.Sprintf("%d of %d", found, len(damages)))
	if found < len(damages)/4 {
		t.Errorf("%d of %d were found", found, len(damages))
	}
}

// TestNoGrowth checks that the space of replaced and removed records is used again.
func TestNoGrowth(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	random := rand.New(rand.NewPCG(3, 4))
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	var early int64
	for i := range 1500 {
		var changes []store.Change
		for range 5 {
			key := fmt.Sprintf("job/%04d", random.IntN(300))
			changes = append(changes, put(key, strings.Repeat("x", random.IntN(2000))), store.Change{Key: fmt.Sprintf("job/%04d", random.IntN(300))})
		}
		commit(t, s, changes...)
		if i == 500 {
			early = size()
		}
	}
	if late := size(); late > 2*early {
		t.Errorf("%d bytes, and %d before", late, early)
	}
}

// mounted returns a small file system of its own.
func mounted(t *testing.T, options string) string {
	t.Helper()
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk checks that on a full disk no record is lost, that the error names the cause, and
// that the store continues when there is space again.
func TestFullDisk(t *testing.T) {
	dir := mounted(t, "mode=0700,size=512k")
	path := filepath.Join(dir, "store")
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 200<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	want, failures := map[string]string{}, 0
	check := func(s *store.Store) {
		t.Helper()
		got := map[string]string{}
		for key, value := range s.All("") {
			got[key] = string(value)
		}
		if !maps.Equal(got, want) || s.Err() != nil {
			t.Fatalf("%d records, expected %d, %v", len(got), len(want), s.Err())
		}
	}
	for i := 0; failures < 20; i++ {
		key, value := fmt.Sprintf("job/%05d", i%150), strings.Repeat(fmt.Sprint(i), 700)
		switch err := s.Commit([]store.Change{put(key, value), put(key+"/more", value)}); {
		case errors.Is(err, syscall.ENOSPC):
			if failures++; !strings.Contains(err.Error(), fmt.Sprintf("cannot write to the store %q", path)) {
				t.Fatal(err)
			}
			check(s)
		case err != nil:
			t.Fatal(err)
		default:
			want[key], want[key+"/more"] = value, value
		}
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	commit(t, s, put("after", "it"))
	want["after"] = "it"
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(open(t, path))
}

// TestRemovalFromFullDisk checks that records can be replaced and removed on a full disk: the store
// reserves the space that this needs.
func TestRemovalFromFullDisk(t *testing.T) {
	dir := mounted(t, "mode=0700,size=32m")
	path := filepath.Join(dir, "store")
	s := open(t, path)
	want := map[string]string{}
	for i := range 300 {
		key := fmt.Sprintf("job/%05d", i)
		want[key] = strings.Repeat(fmt.Sprint(i), 700)
		commit(t, s, put(key, want[key]))
	}
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for page := make([]byte, 4096); err == nil; {
		_, err = ballast.Write(page)
	}
	if err := ballast.Close(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(9, 10))
	for range 500 {
		key := fmt.Sprintf("job/%05d", random.IntN(300))
		if random.IntN(4) == 0 {
			commit(t, s, put(key, "short"), put("answer", fmt.Sprint(random.Int())))
			want[key] = "short"
		} else {
			commit(t, s, store.Change{Key: key}, put("answer", fmt.Sprint(random.Int())))
			delete(want, key)
		}
	}
	check := func() {
		t.Helper()
		got := map[string]string{}
		for key, value := range s.All("job/") {
			got[key] = string(value)
		}
		if !maps.Equal(got, want) || s.Err() != nil {
			t.Errorf("%d records, expected %d, %v", len(got), len(want), s.Err())
		}
	}
	check()
	if err := s.Close(); err != nil { // and it is opened there
		t.Fatal(err)
	}
	s = open(t, path)
	check()
	for key := range want { // all at the same time
		delete(want, key)
		commit(t, s, store.Change{Key: key})
	}
	check()
}

// TestNoRoomToBegin checks that no store is created on a disk without space.
func TestNoRoomToBegin(t *testing.T) {
	dir := mounted(t, "mode=0700,size=8k")
	path := filepath.Join(dir, "store")
	if _, err := store.Open(path); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
		t.Errorf("it has left %v, %v", entries, err)
	}
}

func TestReadOnly(t *testing.T) {
	dir := mounted(t, "mode=0700,size=1m")
	path := filepath.Join(dir, "store")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(dir, "another")} {
		_, err := store.Open(path)
		if want := fmt.Sprintf("cannot open the store %q: read-only file system", path); err == nil || err.Error() != want {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// TestNotPermitted checks that a store cannot be opened without the permission to write.
func TestNotPermitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		// root may, unless the file says otherwise.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(filepath.Dir(path), "nowhere"), path); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(path); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(path); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

// TestValueThatLooksLikeAFirstPage checks that a value of a user that looks like the first page of
// the file is not mistaken for it.
func TestValueThatLooksLikeAFirstPage(t *testing.T) {
	dir := t.TempDir()
	var value []byte
	for range 4000 {
		order, page := binary.NativeEndian, make([]byte, 0, 64)
		page = order.AppendUint32(page, 0xED0CDAED)
		page = order.AppendUint32(page, 2)
		page = order.AppendUint32(page, 1<<16)
		page = order.AppendUint32(page, 0)
		for _, n := range []uint64{1, 0, 1, 1 << 40, 1 << 50} {
			page = order.AppendUint64(page, n)
		}
		sum := fnv.New64a()
		sum.Write(page)
		value = append(value, order.AppendUint64(page, sum.Sum64())...)
	}
	for shift := range 64 { // wherever the value begins in its page
		path := filepath.Join(dir, fmt.Sprint(shift))
		s := open(t, path)
		commit(t, s, store.Change{Key: "script", Value: append(make([]byte, shift), value...)})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := open(t, path).Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOlderFormat checks that the file of an older version gets the newest format when it is
// written.
func TestOlderFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := open(t, path)
	commit(t, s, put("a", "b"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	format := func(set string) (was string) {
		t.Helper()
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			about := tx.Bucket([]byte("about"))
			if was = string(about.Get([]byte("format"))); set == "" {
				return nil
			}
			return about.Put([]byte("format"), []byte(set))
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		return was
	}
	format("1")
	s = open(t, path)
	if got := all(t, s, ""); got != "a=b" {
		t.Error(got)
	}
	commit(t, s, put("c", "d"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := format(""); got != "2" {
		t.Errorf("its format is %q", got)
	}
}
