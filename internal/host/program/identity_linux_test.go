package program

import "testing"

func TestLookup(t *testing.T) {
	id, err := Lookup("root")
	if err != nil || id.UID != 0 || id.Home == "" || len(id.Groups) == 0 {
		t.Errorf("%+v, %v", id, err)
	}
	if _, err := Lookup("no-such-user"); err == nil {
		t.Error("a user that does not exist is found")
	}
}
