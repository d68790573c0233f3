package daemon

import (
	"github.com/execd-project/execd/agent/audit"
)

// openAudit opens the audit log, if there is to be one.
func (d *daemon) openAudit() (err error) {
	if d.settings.audit == "" {
		return nil
	}
	log := d.logOf("audit")
	d.audit, err = audit.Open(audit.Options{
		Path: d.settings.audit, Host: d.host, Daemon: d.name(), Journal: true, Required: d.auditRequired,
		Report: func(err error) {
			if err != nil {
				log.Error("the audit log cannot be written: records wait", "required", d.auditRequired, "error", err)
			} else {
				log.Info("the audit log can be written again")
			}
		},
	})
	return err
}

// name is that of the daemon: agent or standalone.
func (d *daemon) name() string {
	if d.Name == "" {
		return "agent"
	}
	return d.Name
}
