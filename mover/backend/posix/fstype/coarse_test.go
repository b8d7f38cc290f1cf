package fstype

import (
	"testing"
	"time"

	"datamove.dev/mover"
)

// TestCoarseTimes: what is known of file systems that keep less than a nanosecond, and that cannot all be mounted here.
func TestCoarseTimes(t *testing.T) {
	for magic, want := range map[uint32]mover.TimeRange{
		0x0BD00BD0: {Grain: time.Second}, // Lustre: seconds in its protocol, 2.15 to 2.17
		0x4D44:     {Grain: 2 * time.Second},
		fuseMagic:  {Unsure: true},
		0xABCDEF01: {Unsure: true}, // nobody has heard of it
		0x01021994: {},
	} {
		if got := typeOf(-1, magic).times; got != want {
			t.Errorf("%#x: %+v, want %+v", magic, got, want)
		}
	}
}
