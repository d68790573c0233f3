package daemon

import (
	"context"
	"fmt"

	"github.com/execd-project/execd/internal/host/healthcheck"
)

// announce tells the service manager that the agent is ready, and then keeps feeding its watchdog.
func (d *daemon) announce(ctx context.Context) {
	d.log.Info("ready", "host", d.host, "spool", d.settings.spool, "socket", d.socket, "version", d.Version)
	d.ready.Store(true)
	d.say(d.manager.Ready(d.status()))
	d.beside.Go(func() {
		d.manager.Watch(ctx, d.alive, func(err error) {
			if err != nil {
				d.log.Error("the agent does not answer the watchdog", "error", err)
			}
		})
	})
}

// alive checks that the agent answers a call which needs the lock on the table of jobs, as all
// calls do. While a previous check waits, it makes no other call.
func (d *daemon) alive(ctx context.Context) error {
	d.asking.Lock()
	if d.answers == nil {
		done := make(chan struct{})
		d.answers = done
		d.beside.Go(func() {
			d.agent.Health()
			d.asking.Lock()
			defer d.asking.Unlock()
			d.answers = nil
			close(done)
		})
	}
	done := d.answers
	d.asking.Unlock()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// status returns the line that systemctl status shows.
func (d *daemon) status() string {
	h := d.agent.Health()
	text := fmt.Sprintf("%d of %d slots in use", h.Used, h.Slots)
	if h.Draining != "" {
		text += "; takes no jobs: " + h.Draining
	}
	return text
}

// say logs an error of notifying the service manager.
func (d *daemon) say(err error) {
	if err != nil {
		d.log.Warn("cannot notify the service manager", "error", err)
	}
}

// checkHealth starts the health check of the site before the host takes any job. If the site has no
// health check any more, it clears the drain of an earlier one.
func (d *daemon) checkHealth(ctx context.Context) error {
	if d.healthCheck == "" {
		return d.agent.DrainFor(healthcheck.Source, "")
	}
	log := d.logOf("health")
	check, err := healthcheck.New(healthcheck.Config{
		Path: d.healthCheck, User: d.healthUser, Interval: d.healthInterval, Host: d.host,
		Drain: func(reason string) error { return d.agent.DrainFor(healthcheck.Source, reason) },
		Ran: func(r healthcheck.Result) {
			switch {
			case r.Err != nil:
				log.Error("the state of the host was not changed", "error", r.Err)
			case r.Changed && r.Good:
				log.Info("the health check succeeded")
			case r.Changed:
				log.Warn("the health check has taken the host out of service", "reason", r.Reason)
			}
		},
	})
	if err != nil {
		return err
	}
	d.health = check
	if err := check.Begin(); err != nil {
		return err
	}
	d.beside.Go(func() { check.Run(ctx) })
	return nil
}
