package qclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/standalone/api"
)

// confirmedChange is a change of the configuration that root has confirmed to the launcher.
type confirmedChange struct {
	socket, key string
	list        []configdir.Change
	// stdout and stderr are what the command prints if the change is made.
	stdout, stderr string
	exit           int
}

// configure carries out qconf of root for a daemon of two processes. This process carries out the command line with root's
// configuration, which it reads from the directory that the launcher names, and confirms the changes that follow from it
// to the launcher. It uses nothing that the daemon says: the daemon only learns the edited texts, and has to find the
// same changes. A result without a change is the answer to the command.
func (c *Command) configure(ctx context.Context, q *api.CommandRequest, in *command.Input, a *api.CommandAnswer) (*confirmedChange, *api.CommandAnswer, error) {
	if q.Confirmed != "" || len(a.Amend) > 0 {
		return nil, nil, errors.New("the daemon requests another confirmation of the command")
	}
	change := &confirmedChange{socket: string(a.Confirm), key: rand.Text()}
	at, err := change.tell(ctx, &claim.Configure{Step: claim.StepRead})
	if err != nil {
		return nil, nil, err
	}
	cluster, base, err := readConfiguration(at)
	if err != nil {
		return nil, nil, err
	}
	typed := *in
	typed.By, typed.Host, typed.Edited, typed.Terminal = cell.Caller{User: "root", Host: at.Host}, at.Host, nil, onTerminal(c.Stderr)
	var r *command.Result
	for {
		now := time.Now().Unix()
		r = command.Run(cell.New(now, cluster, cell.Options{Zone: time.Local}), now, &typed)
		if r.Edit == nil {
			break
		}
		text, err := c.edit(ctx, &api.File{Name: api.Text(r.Edit.Name), Text: r.Edit.Text})
		if err != nil {
			return nil, nil, err
		}
		typed.Edited = append(typed.Edited, text)
	}
	if len(r.Writes) == 0 {
		return nil, &api.CommandAnswer{Stdout: api.Text(r.Stdout), Stderr: api.Text(r.Stderr + r.Hint), Exit: r.Exit, Command: in.Name}, nil
	}
	for _, w := range r.Changed() {
		change.list = append(change.list, configdir.Change{Path: w.Path, Text: w.Text, Remove: w.Remove})
	}
	slices.SortFunc(change.list, func(a, b configdir.Change) int { return strings.Compare(a.Path, b.Path) })
	change.stdout, change.stderr, change.exit = r.Stdout, r.Stderr+r.Hint, r.Exit
	if _, err := change.tell(ctx, &claim.Configure{Step: claim.StepConfirm, Base: base, Digest: configdir.Digest(change.key, change.list)}); err != nil {
		return nil, nil, err
	}
	q.Key, q.Edited, q.Confirmed = rand.Text(), typed.Edited, change.key
	return change, nil, nil
}

// tell sends the launcher a message about the change.
func (x *confirmedChange) tell(ctx context.Context, q *claim.Configure) (at *claim.Place, err error) {
	err = patiently(ctx, func() error {
		launcher, err := claim.Dial(ctx, x.socket)
		if err != nil {
			return err
		}
		defer launcher.Close()
		q.Key = x.key
		if at, err = launcher.Configure(q); errors.Is(err, claim.ErrEnd) && q.Step == claim.StepConfirm {
			return fmt.Errorf("%w; repeat the command", errors.New(err.Error())) // the key may be in use
		}
		return err
	})
	return at, err
}

// readConfiguration reads root's configuration. sum identifies its files.
func readConfiguration(at *claim.Place) (cluster *qconf.Cluster, sum string, err error) {
	base, err := qconf.BuiltinOn(at.Host, at.Processors)
	if err != nil {
		return nil, "", err
	}
	fsys, err := configdir.Trusted(at.Dir)
	if err != nil {
		return nil, "", err
	}
	files, folders, err := configdir.Contents(fsys)
	if err == nil {
		cluster, err = qconf.Load(configdir.Memory(files, folders), base)
	}
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the configuration: %w", qconf.Within(at.Dir, err))
	}
	return cluster, configdir.Sum(files), nil
}

// settle finds out what became of a change, after the answer a of the daemon, or its failure. From then on the daemon can
// neither make nor undo the change.
func (x *confirmedChange) settle(a *api.CommandAnswer, failed error) (*api.CommandAnswer, error) {
	// Not with the context of the command: also an interrupted command says what became of it.
	ctx, cancel := context.WithTimeout(context.Background(), claim.Patience)
	defer cancel()
	at, err := x.tell(ctx, &claim.Configure{Step: claim.StepSettle})
	if err != nil {
		return nil, errors.Join(failed, fmt.Errorf("cannot find out whether the configuration has changed: %w; see qconf -s", err))
	}
	made, err := x.made(at.Dir)
	switch {
	case err != nil:
		return nil, errors.Join(failed, fmt.Errorf("cannot find out whether the configuration has changed: %w; see qconf -s", err))
	case failed != nil && made:
		return nil, fmt.Errorf("the configuration in %s has changed, but the daemon has not answered: %w", at.Dir, failed)
	case failed != nil:
		return nil, fmt.Errorf("the configuration has not changed: %w", failed)
	case !made && a.Exit == 0 && x.exit == 0:
		return nil, fmt.Errorf("the configuration in %s has not changed, although the daemon says so", at.Dir)
	case !made:
		return a, nil // it says why
	case a.Exit != 0 && x.exit == 0:
		a.Stderr += api.Text("the configuration in " + at.Dir + " has changed, and the daemon may use it from its next start on\n")
		return a, nil
	}
	return &api.CommandAnswer{Stdout: api.Text(x.stdout), Stderr: api.Text(x.stderr), Exit: x.exit, Command: a.Command}, nil
}

// made reports whether the files of a directory are as after the change.
func (x *confirmedChange) made(dir string) (bool, error) {
	fsys, err := configdir.Trusted(dir)
	if err != nil {
		return false, err
	}
	files, _, err := configdir.Contents(fsys)
	if err != nil {
		return false, err
	}
	d, err := configdir.Open(dir)
	if err != nil {
		return false, err
	}
	defer d.Close()
	list, err := d.Complete(nil, x.list)
	return err == nil && configdir.InEffect(files, list), err
}
