package daemon

import "testing"

// TestAddressTo: peers are given things on the address from which the coordinator is reached, and on no other one.
func TestAddressTo(t *testing.T) {
	for target, want := range map[string]string{"127.0.0.1:7643": "127.0.0.1", "": "", "nonsense": ""} {
		if got := addressTo(target); got != want {
			t.Errorf("towards %q from %q, want %q", target, got, want)
		}
	}
}
