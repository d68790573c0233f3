package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/host/userdb"
)

// TestPassesEnd checks the lifetimes and the numbers of links and sessions of a user.
func TestPassesEnd(t *testing.T) {
	g := newGuard(rules{base: "https://host", cookie: "c", linkTime: time.Minute, sessionTime: time.Hour, most: 2, replace: true})
	alice, bob := &userdb.User{Name: "alice", UID: 1001}, &userdb.User{Name: "bob", UID: 1002}
	token := func(u *userdb.User) string {
		link, err := url.Parse(g.link(u))
		if err != nil {
			t.Fatal(err)
		}
		return link.Query().Get("token")
	}
	enter := func(u *userdb.User) string {
		t.Helper()
		cookie, who, ok := g.enter(token(u))
		if !ok || who != u {
			t.Fatalf("%s cannot enter: %v %v", u.Name, who, ok)
		}
		return cookie
	}
	visitor := func(cookie string) *userdb.User {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: "c", Value: cookie})
		return g.visitor(r)
	}
	old := token(alice)
	for _, p := range g.links {
		p.at = p.at.Add(-2 * time.Minute)
	}
	if _, _, ok := g.enter(old); ok {
		t.Error("a link works after its time")
	}
	first, others := enter(alice), enter(bob)
	second, third := enter(alice), enter(alice)
	if visitor(first) != nil || visitor(second) != alice || visitor(third) != alice || visitor(others) != bob || visitor("") != nil {
		t.Error("the oldest of three sessions, and no other one, has to end")
	}
	for _, p := range g.sessions {
		p.at = p.at.Add(-2 * time.Hour)
	}
	if visitor(third) != nil {
		t.Error("a session works after its time")
	}
	if g.formToken(alice) == g.formToken(bob) {
		t.Error("two users have the same token in forms")
	}
}

// TestSlowFiles reads files that do not answer: the page goes on without them, and further ones are not opened.
func TestSlowFiles(t *testing.T) {
	s := newSource(nil, nil, &userdb.User{UID: 1}, nil)
	hang := make(chan struct{})
	defer close(hang)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begun := make(chan struct{}, maxReading)
	for range maxReading {
		wait, stop := context.WithCancel(t.Context())
		go func() {
			<-begun
			stop()
		}()
		_, err := read(wait, s, func() (int, error) {
			begun <- struct{}{}
			<-hang
			return 0, nil
		})
		if !errors.Is(err, errSlowFile) {
			t.Errorf("a file that does not answer: %v", err)
		}
	}
	_, err := read(ctx, s, func() (int, error) {
		t.Error("too many files are read")
		return 0, nil
	})
	if !errors.Is(err, errSlowFile) {
		t.Errorf("a further file: %v", err)
	}
}
