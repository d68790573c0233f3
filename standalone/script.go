package standalone

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/standalone/scripts"
	"github.com/execd-project/execd/standalone/store"
)

// scriptsFolder is the folder of large scripts in the spool area.
const scriptsFolder = "scripts"

// mostLoading is how many large scripts are in memory at the same time, on their way to the
// agent.
const mostLoading = 8

// kept are the scripts outside of the store: the script of each record, and the number of
// references to each script.
type kept struct {
	folder  *scripts.Folder
	sums    map[string]string // by key
	refer   map[string]int    // by sum
	loading chan struct{}
}

func newKept(spool string) *kept {
	k := &kept{folder: scripts.In(filepath.Join(spool, scriptsFolder)), loading: make(chan struct{}, mostLoading)}
	k.forget()
	return k
}

// forget clears all references.
func (k *kept) forget() { k.sums, k.refer = map[string]string{}, map[string]int{} }

// note registers a record of the store, or with a nil value its removal. If that drops the last
// reference to a script, it returns the script's sum.
func (k *kept) note(key string, value []byte) (unused string) {
	sum, is := cell.ScriptOf(key, value)
	if !is {
		return ""
	}
	before := k.sums[key]
	if sum == before {
		return ""
	}
	if sum == "" {
		delete(k.sums, key)
	} else {
		k.sums[key] = sum
		k.refer[sum]++
	}
	if before == "" {
		return ""
	}
	if k.refer[before]--; k.refer[before] > 0 {
		return ""
	}
	delete(k.refer, before)
	return before
}

// write writes the scripts of changes. Call it before the changes are committed.
func (k *kept) write(changes []cell.Change) error {
	wrote := false
	for _, c := range changes {
		if c.Script == nil {
			continue
		}
		sum, _ := cell.ScriptOf(c.Key, c.Value)
		if err := k.folder.Write(sum, c.Script); err != nil {
			return err
		}
		wrote = true
	}
	if !wrote {
		return nil
	}
	return k.folder.Sync()
}

// committed removes the scripts to which nothing refers since changes were committed.
func (k *kept) committed(changes []store.Change) (err error) {
	var unused []string
	for _, c := range changes {
		if sum := k.note(c.Key, c.Value); sum != "" {
			unused = append(unused, sum)
		}
	}
	for _, sum := range unused {
		if k.refer[sum] == 0 { // otherwise another record refers to it
			err = errors.Join(err, k.folder.Remove(sum))
		}
	}
	return err
}

// sweep removes the scripts to which no record refers.
func (k *kept) sweep() error {
	return k.folder.Sweep(func(sum string) bool { return k.refer[sum] > 0 })
}

// starting is a start, with the sum of its script if that is outside of the store.
type starting struct {
	*agent.Start
	script string
}

// start gives the agent a start with its script.
func (k *kept) start(ctx context.Context, c agent.Commands, s starting) error {
	if s.script == "" {
		_, err := c.Start(ctx, s.Start)
		return err
	}
	k.loading <- struct{}{}
	defer func() { <-k.loading }()
	text, err := k.folder.Read(s.script)
	if errors.Is(err, scripts.ErrLost) {
		return &agent.Error{Code: agent.InvalidArgument, Err: err}
	}
	if err != nil {
		return err
	}
	request := *s.Request
	request.Script = text
	whole := *s.Start
	whole.Request = &request
	_, err = c.Start(ctx, &whole)
	return err
}

// mostMoved is how many bytes of scripts are moved out of the store in one commit.
const mostMoved = 64 << 20

// moveScripts moves large scripts out of the store, in which an older daemon has stored them.
// Without enough space they stay.
func (m *Master) moveScripts(cluster *qconf.Cluster) error {
	for all := 0; ; {
		n := m.cell.MoveScripts(mostMoved)
		if n == 0 {
			if all > 0 {
				m.log.Info("scripts were moved out of the store", "jobs", all)
			}
			return nil
		}
		changes := m.cell.Changes()
		err := m.scripts.write(changes)
		if err == nil {
			err = m.store.Commit(translate(changes))
		}
		if err != nil {
			m.log.Warn("scripts stay in the store", "error", err)
			return m.restore(cluster)
		}
		if err := m.scripts.committed(translate(changes)); err != nil {
			m.log.Warn("cannot remove unused scripts", "error", err)
		}
		all += n
	}
}
