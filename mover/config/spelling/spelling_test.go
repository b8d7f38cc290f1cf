package spelling_test

import (
	"strings"
	"testing"

	"datamove.dev/mover/config/spelling"
)

func TestNearest(t *testing.T) {
	words := []string{"idle", "size", "stage-in", "s3", "Name", "var"}
	for name, want := range map[string]string{
		"idel": "idle", "vra": "var", "rav": "", "IDLE": "idle", "siez": "size", "stage_in": "stage-in", "stagein": "stage-in", "name": "Name", "s4": "s3",
		"xy": "", "a": "", "le": "", "weight": "", "": "", strings.Repeat("x", 1000): "",
	} {
		if got := spelling.Nearest(name, words); got != want {
			t.Errorf("%.20q is %q, want %q", name, got, want)
		}
	}
}
