package qconf

import (
	"strings"
	"testing"
)

func TestPrivateTmpPerQueue(t *testing.T) {
	for text, want := range map[string]map[string]bool{
		"none":                                   {"all.q": false},
		"PRIVATE_TMP=true":                       {"all.q": true, "b.q": true},
		"PRIVATE_TMP=true,[b.q=false]":           {"all.q": true, "b.q": false},
		"PRIVATE_TMP=0,[short*=1] KEEP_ACTIVE":   {"all.q": false, "short.q": true},
		"PRIVATE_TMP=false,[*=true],[b.q=false]": {"all.q": true, "b.q": false},
	} {
		e := conf(t, "execd_params "+text+"\n")
		for queue, on := range want {
			same(t, text+" "+queue, on, e.ExecdParams.PrivateTmp.For(queue))
		}
	}
}

func TestPrivateTmpShareIsChecked(t *testing.T) {
	same(t, "paths", []string{"/tmp/a", "/dev/shm/b"}, conf(t, "execd_params PRIVATE_TMP_SHARE=/tmp/a:/dev/shm/b\n").ExecdParams.PrivateTmpShare)
	same(t, "none", 0, len(conf(t, "execd_params PRIVATE_TMP_SHARE=none\n").ExecdParams.PrivateTmpShare))
	for _, path := range []string{"/etc", "/tmp", "/tmp/../etc", "tmp/x", "/tmp/a:", "/tmp/a/"} {
		var e ExecdParams
		if _, err := readPrivateTmpShare(&e, path); err == nil || !strings.Contains(err.Error(), "is not a path in /tmp, /var/tmp, /dev/shm") {
			t.Errorf("%s: the error is %v", path, err)
		}
	}
}

func TestPrivateTmpRequests(t *testing.T) {
	base, err := BuiltinOn("host", 4)
	if err != nil {
		t.Fatal(err)
	}
	c, err := base.WithPrivateTmp("host", true)
	if err != nil {
		t.Fatal(err)
	}
	complexes := c.Complexes()
	for value, want := range map[string]bool{"true": true, "TRUE": true, "1": true, "false": false, "0": false, "nonsense": false} {
		same(t, value, want, complexes.RequestsPrivateTmp([]Setting{{Name: "private_tmp", Value: value}, {Name: "gpu", Value: "1"}}))
	}
}
