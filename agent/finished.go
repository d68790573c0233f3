package agent

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/execd-project/execd/jobdir"
)

// mostFinished is the number of remembered keys of finished jobs: a repeated start that arrives
// after more than this many others would count as a new one.
const mostFinished = 20000

// finished remembers the keys of jobs whose end was acknowledged, so that a late repetition of a
// start does not run the job again. A power loss may lose keys, because masters do not repeat
// starts of jobs that they know to have ended.
type finished struct {
	root *jobdir.Dir
	disk *disk

	writing sync.Mutex // serialises changes with the file; taken before mu
	log     *jobdir.Log
	lines   int // of the file

	mu    sync.Mutex
	keys  map[string]bool
	order []string // in order of arrival
}

func openFinished(root *jobdir.Dir, d *disk) (*finished, error) {
	f := &finished{root: root, disk: d, keys: map[string]bool{}}
	b, err := f.root.ReadFile(fileFinished)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	text := string(b)
	// A write that was interrupted has left no whole line.
	text = text[:strings.LastIndexByte(text, '\n')+1]
	for line := range strings.Lines(text) {
		f.remember(strings.TrimSuffix(line, "\n"))
	}
	if err := f.rewrite(); err != nil && !full(err) {
		return nil, err
	}
	return f, nil // if the disk is full, the previous file remains
}

func (f *finished) remember(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[key] {
		return
	}
	f.keys[key] = true
	f.order = append(f.order, key)
	if len(f.order) > mostFinished {
		delete(f.keys, f.order[0])
		f.order = f.order[1:]
	}
}

func (f *finished) has(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys[key]
}

// add remembers a key. If the disk is full, it remembers the key in memory only.
func (f *finished) add(key string) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	defer f.disk.begin("writing the file " + fileFinished)()
	f.remember(key)
	if f.log == nil || f.lines >= 2*mostFinished {
		return f.rewrite()
	}
	f.lines++
	return f.log.Add(key + "\n")
}

// rewrite replaces the file by the remembered keys. The caller holds writing.
func (f *finished) rewrite() error {
	f.close()
	f.mu.Lock()
	lines := slices.Clone(f.order)
	f.mu.Unlock()
	text := ""
	if len(lines) > 0 {
		text = strings.Join(lines, "\n") + "\n"
	}
	err := f.root.WriteFile(fileFinished, []byte(text))
	if err == nil {
		f.lines = len(lines)
		f.log, err = f.root.OpenAppend(fileFinished)
	}
	return err
}

// end closes the file.
func (f *finished) end() {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.close()
}

// close closes the file. The caller holds writing.
func (f *finished) close() {
	if f.log != nil {
		_ = f.log.Close()
		f.log = nil
	}
}
