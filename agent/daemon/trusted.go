package daemon

import (
	"fmt"
	"path/filepath"

	"github.com/execd-project/execd/internal/trust"
)

// checkFiles refuses to begin if another user can change a file that the daemon reads, or make
// one where it keeps its own. The configuration is checked each time it is read.
func (d *daemon) checkFiles() error {
	users := trust.Own()
	if err := users.CheckDirectory(d.settings.spool); err != nil {
		return fmt.Errorf("cannot use the spool directory: %w", err)
	}
	for option, path := range map[string]string{
		"--tls-cert": d.tlsCert, "--tls-key": d.tlsKey, "--tls-ca": d.tlsCA, "--token-file": d.tokenFile,
	} {
		if path == "" {
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if err := users.Check(path); err != nil {
			return fmt.Errorf("cannot use the file of %s: %w", option, err)
		}
	}
	return nil
}
