package main

import (
	"testing"
)

func init() { registerToxics() }

// The API is never offered to other machines by accident.
func TestLoopbackOnly(t *testing.T) {
	for host, want := range map[string]bool{"127.0.0.1": true, "127.77.0.1": true, "::1": true, "localhost": true, "0.0.0.0": false, "10.0.0.1": false, "": false} {
		if got := isLoopback(host); got != want {
			t.Errorf("isLoopback(%q) is %v", host, got)
		}
	}
}
