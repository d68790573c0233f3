package gridengine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/internal/clock"
)

// standing gives a link a clock that stands still.
func standing() (*clock.Manual, func(*Options)) {
	now := clock.NewManual(time.Now())
	return now, func(o *Options) { o.Clock, o.Retry = now, 30*time.Second }
}

// configured answers requests for the configuration, and returns the one that follows.
func (w *world) configured() (*commlib.Message, *message.Request) {
	w.Helper()
	for {
		m := w.receive()
		r, err := w.codec.DecodeRequest(m.Payload)
		if err != nil || w.tag(m) != message.TagGDIRequest {
			w.Fatalf("a message with the tag %d came before the registration: %v", m.Tag, err)
		}
		if r.Command != 1 {
			return m, r
		}
		w.reply(m, r)
		<-w.installed
	}
}

// TestUnregisteredLinkIsIdle checks that the loop of a link that is not registered runs only for
// events: no report is due.
func TestUnregisteredLinkIsIdle(t *testing.T) {
	const reports, extra = 100, 20
	for name, until := range map[string]func(w *world, now *clock.Manual){
		"there is no qmaster":                    func(w *world, _ *clock.Manual) { w.qmaster.Close() },
		"qmaster does not answer":                func(w *world, _ *clock.Manual) { w.accept() },
		"qmaster does not answer a registration": func(w *world, _ *clock.Manual) { w.accept(); w.configured() },
		"qmaster refuses the registration": func(w *world, _ *clock.Manual) {
			w.accept()
			m, r := w.configured()
			r.Answers = []message.Answer{{Status: 8, Text: "denied"}}
			if _, err := w.conn.Send(w.codec.Number(message.TagGDIRequest), m.ID, w.codec.EncodeRequest(r)); err != nil {
				w.Fatal(err)
			}
		},
		"qmaster has ended": func(w *world, now *clock.Manual) {
			w.commands.taken(w.T)
			w.accept()
			w.register()
			w.full()
			w.qmaster.Close()
			w.conn.Abort()
			ctx, cancel := context.WithTimeout(w.Context(), patience)
			defer cancel()
			if err := now.WaitFor(ctx, firstRetry); err != nil { // it has noticed
				w.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			now, stand := standing()
			w := newWorld(t, stand)
			until(w, now)
			for range 20 { // more than are on their way at the same time
				w.commands.measure("0.6")
				w.commands.taken(t)
			}
			now.Advance(firstRetry / 2) // now the report of the load is late
			before := w.link.turns.Load()
			for range reports {
				w.commands.measure("0.7")
				w.commands.taken(t)
			}
			turns := w.link.turns.Load() - before
			if t.Attr("turns", fmt.Sprint(turns)); turns > reports+extra {
				t.Errorf("the link made %d turns for %d reports of the agent, of which it can send none", turns, reports)
			}
		})
	}
}

// TestConnectionsThatEndAtOnce connects to a qmaster that accepts connections and closes them at
// once, as a qmaster does that is stopping or that does not accept this host.
func TestConnectionsThatEndAtOnce(t *testing.T) {
	now, stand := standing()
	w := newWorld(t, stand)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var count atomic.Int64
	go func() {
		for {
			nc, err := w.qmaster.Accept()
			if err != nil {
				return
			}
			conn, err := commlib.Server(nc, commlib.Options{}, func(*commlib.ConnectRequest) commlib.ConnectResponse {
				return commlib.ConnectResponse{Condition: commlib.Connected}
			})
			if err == nil {
				conn.Abort()
			}
			if count.Add(1) > 2 {
				cancel()
			}
		}
	}()
	for pause := firstRetry; pause <= 8*firstRetry; pause *= 2 {
		if err := now.WaitFor(ctx, pause); err != nil {
			t.Fatalf("the link has connected %d times, and does not wait for %s before it does so again", count.Load(), pause)
		}
		count.Store(0)
		now.Advance(pause)
	}
}
