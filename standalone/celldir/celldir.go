// Package celldir makes the directory that jobs and scripts find as SGE_ROOT: the files of a
// Grid Engine installation that they source, read and call.
//
// Other projects should not import this package: it may change at any time.
//
//	default/common/settings.sh    the environment of the cell, for Bourne shells
//	default/common/settings.csh   the same for csh
//	default/common/act_qmaster    the name of the host (sge_intro(1))
//	default/common/accounting     a link to the records of accounting(5)
//	default/common/sge_request    default options of all users (sge_request(5))
//	bin/ARCH                      links to execd with the names of the commands
//	lib/ARCH                      links to the DRMAA library, if it is installed
//	util/arch                     prints ARCH
//	util/resources/jsv            functions for JSV scripts in sh, Perl, Python and Tcl
//	                              (jsv_script_interface(3))
//
// The user of the daemon owns all files. Make may be called again at any time: it replaces files
// that differ, except for those that administrators edit.
package celldir

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
)

// Cell is the name of the cell, SGE_CELL.
const Cell = "default"

// Contents holds the values for the files of a directory.
type Contents struct {
	Host       string   // act_qmaster
	Socket     string   // the socket of the daemon, absolute
	Accounting string   // the file of records, absolute; empty for none
	Executable string   // execd, absolute
	Library    string   // libdrmaa.so.1.0, absolute; empty if it is not installed
	Arch       string   // such as lx-amd64
	Commands   []string // names of execd in bin/ARCH
}

// files are the texts. NAME@ in a text stands for a value.
//
//go:embed files
var files embed.FS

// ReadRequest reads such a file; fs.ErrNotExist if there is none.
func ReadRequest(dir, name string) ([]byte, error) {
	return textfile.ReadFS(os.DirFS(filepath.Join(dir, Cell, "common")), name, textfile.MaxConfig)
}

// Make makes the directory, or renews it.
func Make(dir string, c Contents) error {
	for _, path := range []string{dir, c.Socket, c.Accounting, c.Executable, c.Library} {
		if strings.ContainsAny(path, "\n\r\x00") {
			return fmt.Errorf("cannot make the directory of the cell %q: the path %q has a line break", dir, path)
		}
	}
	if err := c.make(dir); err != nil {
		return fmt.Errorf("cannot make the directory of the cell %q: %w", dir, err)
	}
	return nil
}

func (c *Contents) make(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	common, bin, lib, jsv := filepath.Join(Cell, "common"), filepath.Join("bin", c.Arch), filepath.Join("lib", c.Arch), filepath.Join("util", "resources", "jsv")
	for _, sub := range []string{".", Cell, common, "bin", bin, "lib", lib, "util", filepath.Dir(jsv), jsv} {
		// All users may read it, regardless of the umask.
		if err := errors.Join(root.MkdirAll(sub, 0o755), root.Chmod(sub, 0o755)); err != nil {
			return err
		}
	}
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	for _, name := range c.Commands {
		add(link(root, c.Executable, filepath.Join(bin, name)))
	}
	for _, name := range []string{"libdrmaa.so.1.0", "libdrmaa.so"} { // for dlopen(3), and for ld(1)
		if path := filepath.Join(lib, name); c.Library != "" {
			add(link(root, c.Library, path))
		} else if err := root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			add(err)
		}
	}
	if c.Accounting != "" {
		add(link(root, c.Accounting, filepath.Join(common, "accounting")))
	}
	add(write(root, filepath.Join(common, "act_qmaster"), c.Host+"\n", 0o644))
	for _, f := range []struct {
		dir, name string
		mode      fs.FileMode
	}{
		{common, "settings.sh", 0o644},
		{common, "settings.csh", 0o644},
		{common, "sge_request", 0o644},
		{"util", "arch", 0o755},
		{jsv, "jsv_include.sh", 0o644},
		{jsv, "jsv.sh", 0o755},
		{jsv, "JSV.pm", 0o644},
		{jsv, "jsv.pl", 0o755},
		{jsv, "JSV.py", 0o644},
		{jsv, "jsv.py", 0o755},
		{jsv, "jsv_include.tcl", 0o644},
		{jsv, "jsv.tcl", 0o755},
	} {
		path := filepath.Join(f.dir, f.name)
		if _, err := root.Lstat(path); err == nil && f.name == "sge_request" {
			continue // administrators edit it
		}
		source := f.name
		if source == "JSV.py" { // in one directory with jsv.py, which some file systems take for the same
			source = "jsv_include.py"
		}
		text, err := c.text(source, dir)
		if err == nil {
			err = write(root, path, text, f.mode)
		}
		add(err)
	}
	return errors.Join(errs...)
}

// text returns one of the texts with its values, as words of the shell that reads it.
func (c *Contents) text(name, dir string) (string, error) {
	text, err := files.ReadFile("files/" + name)
	if err != nil {
		return "", err
	}
	quote := quoteSh
	if strings.HasSuffix(name, ".csh") {
		quote = quoteCsh
	}
	values := strings.NewReplacer("ROOT@", quote(dir), "CELL@", quote(Cell), "SOCKET@", quote(c.Socket), "ARCH@", quote(c.Arch), "HOST@", quote(c.Host))
	return values.Replace(string(text)), nil
}

// quoteSh returns s as a word for sh(1).
func quoteSh(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// quoteCsh returns s as a word for csh(1), which looks for its history also in quotes.
func quoteCsh(s string) string { return strings.ReplaceAll(quoteSh(s), "!", `\!`) }

// write makes a file have a text, unless it has it: readers see the one or the other.
func write(root *os.Root, path, text string, mode fs.FileMode) error {
	if info, err := root.Lstat(path); err == nil && info.Mode() == mode {
		if old, err := root.ReadFile(path); err == nil && string(old) == text {
			return nil
		}
	}
	return replace(root, path, func(fresh string) error {
		if err := root.WriteFile(fresh, []byte(text), mode); err != nil {
			return err
		}
		return root.Chmod(fresh, mode) // regardless of the umask
	})
}

// link makes a symbolic link go to a path.
func link(root *os.Root, to, path string) error {
	if old, err := root.Readlink(path); err == nil && old == to {
		return nil
	}
	return replace(root, path, func(fresh string) error { return root.Symlink(to, fresh) })
}

// replace atomically replaces a path by a file that do creates.
func replace(root *os.Root, path string, do func(fresh string) error) error {
	fresh := path + ".new"
	remove := func() error {
		if err := root.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := remove(); err != nil {
		return err
	}
	if err := do(fresh); err != nil {
		return errors.Join(err, remove())
	}
	return root.Rename(fresh, path)
}
