package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var errEnough = errors.New("enough")

// streams are answered one after the other; requests are what was asked.
func streams(t *testing.T, requests *[]ReportsRequest, answers ...string) *Client {
	t.Helper()
	return something(t, func(w http.ResponseWriter, r *http.Request) {
		var q ReportsRequest
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		*requests = append(*requests, q)
		if len(*requests) > len(answers) {
			say(w, `{"error":{"code":"failed_precondition","message":"there is no more"}}`+"\n")
			return
		}
		answer := answers[len(*requests)-1]
		if rest, ok := strings.CutPrefix(answer, "status "); ok {
			w.WriteHeader(http.StatusServiceUnavailable)
			answer = rest
		}
		say(w, answer)
	})
}

// numbers takes all reports of a client.
func numbers(ctx context.Context, c *Client, after uint64) (string, error) {
	var got []string
	err := c.Reports(ctx, after, func(r Report) error {
		switch {
		case r.Heartbeat != nil:
			got = append(got, "heartbeat")
		case r.Configuration != nil:
			got = append(got, r.Configuration.Version)
		default:
			got = append(got, fmt.Sprint(r.Number))
		}
		return nil
	})
	return strings.Join(got, " "), err
}

func TestStream(t *testing.T) {
	for name, test := range map[string]struct {
		answers []string
		want    string
		after   []uint64 // of the requests
	}{
		"a stream that breaks is opened again": {
			[]string{`{"number":3,"job":{"job":1}}` + "\n" + `{"number":4,"load":{}}` + "\n", `{"number":5,"job":{"job":1}}` + "\n"}, "3 4 5", []uint64{2, 4, 5},
		},
		"half a line is none": {
			[]string{`{"number":3,"job":{"job":1}}` + "\n" + `{"number":44,"job":{"job":1}}`, `{"number":4,"load":{}}` + "\n"}, "3 4", []uint64{2, 3, 4},
		},
		"what was taken is not taken again": {
			[]string{`{"number":3,"job":{"job":1}}` + "\n", `{"number":2,"load":{}}` + "\n" + `{"number":3,"job":{"job":1}}` + "\n" + `{"number":4,"job":{"job":1}}` + "\n"},
			"3 4",
			[]uint64{2, 3, 4},
		},
		"heartbeats change nothing": {
			[]string{`{"number":2,"heartbeat":{"time":"2026-03-04T05:06:07Z"}}` + "\n" + `{"number":9,"heartbeat":{"time":"2026-03-04T05:06:07Z"}}` + "\n"},
			"heartbeat heartbeat",
			[]uint64{2, 2},
		},
		"versions are told once, even without a number": {
			[]string{`{"number":0,"configuration":{"version":"a"}}` + "\n", `{"number":0,"configuration":{"version":"a"}}` + "\n" + `{"number":3,"configuration":{"version":"b"}}` + "\n"},
			"a b",
			[]uint64{2, 2, 3},
		},
		"an agent that ends is waited for": {
			[]string{`{"number":3,"load":{}}` + "\n" + `{"number":3,"error":{"code":"unavailable","message":"ends"}}` + "\n"}, "3", []uint64{2, 3},
		},
		"a proxy, garbage and an empty stream": {
			[]string{"status <html>", "garbage\n", "", `{"number":3,"load":{}}` + "\n"}, "3", []uint64{2, 2, 2, 2, 3},
		},
		"fields of the future are skipped": {
			[]string{`{"number":3,"load":{"new":1},"newer":{}}` + "\n" + `{"number":4,"newest":{}}` + "\n"}, "3 4", []uint64{2, 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var requests []ReportsRequest
			c := streams(t, &requests, test.answers...)
			got, err := numbers(t.Context(), c, 2)
			wantCode(t, err, FailedPrecondition, "there is no more")
			if got != test.want {
				t.Errorf("took %s; want %s", got, test.want)
			}
			var after []uint64
			for _, q := range requests {
				after = append(after, q.After)
				if q.Heartbeat != 10 {
					t.Errorf("heartbeat %v", q.Heartbeat)
				}
			}
			if diff := cmp.Diff(test.after, after); diff != "" {
				t.Errorf("asked for reports after: %s", diff)
			}
		})
	}
}

// TestStreamEndsIfTakeFails checks that a report for which take fails is not
// acknowledged.
func TestStreamEndsIfTakeFails(t *testing.T) {
	var requests []ReportsRequest
	c := streams(t, &requests, `{"number":3,"load":{}}`+"\n"+`{"number":4,"load":{}}`+"\n")
	var got []uint64
	err := c.Reports(t.Context(), 0, func(r Report) error {
		got = append(got, r.Number)
		if r.Number == 4 {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || len(got) != 2 || len(requests) != 1 {
		t.Errorf("%v, %v, %d requests", got, err, len(requests))
	}
}

// TestStreamSilence checks that the client closes a stream on which nothing arrives any more.
func TestStreamSilence(t *testing.T) {
	var calls atomic.Int32
	c := something(t, func(w http.ResponseWriter, r *http.Request) {
		skip(r)
		if calls.Add(1) >= 2 {
			say(w, `{"error":{"code":"permission_denied","message":"no more"}}`+"\n")
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, func(o *Options) { o.Heartbeat = 10 * time.Millisecond })
	_, err := numbers(t.Context(), c, 0)
	wantCode(t, err, PermissionDenied, "no more")
}

// TestStreamIsKeptWithHeartbeats checks that heartbeats alone keep a stream open. A machine that
// stalls for a second may still lose one, so the test tries several times.
func TestStreamIsKeptWithHeartbeats(t *testing.T) {
	const beat = 20 * time.Millisecond
	kept := make(chan bool, 1)
	c := something(t, func(w http.ResponseWriter, r *http.Request) {
		skip(r)
		tick := time.NewTicker(beat)
		defer tick.Stop()
		for end := time.Now().Add(time.Second + 10*beat); time.Now().Before(end); {
			say(w, `{"number":1,"heartbeat":{"time":"2026-03-04T05:06:07Z"}}`+"\n")
			w.(http.Flusher).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
		select {
		case kept <- true:
		default:
		}
		say(w, `{"error":{"code":"permission_denied","message":"no more"}}`+"\n")
	}, func(o *Options) { o.Heartbeat = beat })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := numbers(ctx, c, 0)
	wantCode(t, err, PermissionDenied, "no more")
	if len(kept) == 0 {
		t.Error("the stream was given up each time")
	}
}

func TestStreamCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := something(t, func(w http.ResponseWriter, r *http.Request) {
		skip(r)
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
	})
	if _, err := numbers(ctx, c, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// While it waits for the next try.
	ctx, cancel = context.WithCancel(t.Context())
	c = something(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	c.options.PauseMin, c.options.Lost = time.Hour, func(error) { cancel() }
	if _, err := numbers(ctx, c, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	r := bufio.NewReaderSize(strings.NewReader("a\n\n"+long+"\nrest"), 16)
	for _, want := range []string{"a", "", long} {
		if got, err := readLine(r); string(got) != want || err != nil {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
		}
	}
	if got, err := readLine(r); !errors.Is(err, io.EOF) {
		t.Errorf("%q, %v", got, err)
	}
	endless := bufio.NewReaderSize(io.MultiReader(strings.NewReader("a"), endlessReader{}), 1<<20)
	if _, err := readLine(endless); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// FuzzLine checks that any line of a stream is either read or refused.
func FuzzLine(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, `{"number":3,"job":{"job":7,"task":1,"pe_task":"1.n1","state":"ended","outcome":{"failed":0,"limit":null,"usage":{}}}}`,
		`{"number":4,"load":{"full":true,"time":"2026-03-04T05:06:07Z","values":[{"host":"n1","name":"load_avg","value":"0.5"}],"removed":[{}]}}`,
		`{"number":5,"configuration":{"version":"x"}}`, `{"number":6,"heartbeat":{"time":"2026-03-04T05:06:07Z"}}`, `{"error":{"code":"internal","message":"m"}}`,
		`{"number":-1}`, `{"number":1e30}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		taken := 0
		s := stream{client: &Client{where: "x"}, after: 3, take: func(Report) error { taken++; return nil }}
		err := s.line(line)
		if _, ok := errors.AsType[*Error](err); err != nil && !ok {
			t.Errorf("%T", err)
		}
		if taken > 1 || err != nil && taken > 0 || s.after < 3 {
			t.Errorf("taken %d times, %v, after %d", taken, err, s.after)
		}
	})
}
