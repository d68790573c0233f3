package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/textfile"
)

// patience is the timeout for an answer of qconf.
const patience = time.Minute

// asker calls qconf of a running cell.
type asker struct{ program string }

// ask returns the output of qconf, or "" if qconf reports that there is no such object.
func (a *asker) ask(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.program, args...)
	cmd.Env = append(os.Environ(), "SGE_SINGLE_LINE=1", "LC_ALL=C")
	var out, errs answer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	said := strings.TrimSpace(string(errs.text) + string(out.text))
	// "no calendar defined", "No sharetree element"
	if none := strings.ToLower(said); err != nil && (strings.HasPrefix(none, "no ") || strings.Contains(none, "no resource quota set")) {
		return "", nil
	}
	if err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); ok && said != "" {
			err = errors.New(said)
		}
		return "", fmt.Errorf("%s %s: %w", a.program, strings.Join(args, " "), err)
	}
	return string(out.text), nil
}

// answer collects the output of qconf, up to a limit.
type answer struct{ text []byte }

// Write fails at the limit, which also stops qconf.
func (a *answer) Write(p []byte) (int, error) {
	if len(a.text)+len(p) > textfile.MaxConfig {
		return 0, &textfile.SizeError{Limit: textfile.MaxConfig}
	}
	a.text = append(a.text, p...)
	return len(p), nil
}

// readLive reads all objects from the running cell.
func (s *source) readLive(a *asker) error {
	s.whole = true
	for i := range kinds {
		k := &kinds[i]
		names := []string{""}
		if k.list != "" {
			list, err := a.ask(k.list)
			if err != nil {
				return err
			}
			names = strings.Fields(list)
			if k.extra != "" {
				names = append(names, k.extra)
			}
		}
		for _, name := range names {
			args, at := []string{k.show}, k.name
			if name != "" {
				args, at = append(args, name), k.name+"/"+name
			}
			text, err := a.ask(args...)
			if err != nil {
				return err
			}
			if strings.TrimSpace(text) == "" {
				continue
			}
			if err := s.add(k, newObject(at, "qconf "+strings.Join(args, " "), text)); err != nil {
				return err
			}
		}
	}
	return nil
}
