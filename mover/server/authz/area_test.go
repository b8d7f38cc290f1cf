package authz

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// TestAreaOfSchemes: each scheme has its own answer, and one that rules do not know is refused by its name.
func TestAreaOfSchemes(t *testing.T) {
	r := &Rules{tiers: map[string]string{"scratch": "/mnt/scratch"}, buckets: map[string]bool{"cold": true}}
	for _, row := range []struct {
		at   location.Location
		want area
		says string
	}{
		{location.OfPath("/data/x"), area{files, "data/x"}, ""},
		{location.Location{Scheme: location.S3, Bucket: "team", Prefix: "run1"}, area{"s3://team", "run1"}, ""},
		{location.OfTier("scratch", "x"), area{files, "mnt/scratch/x"}, ""},
		{location.OfTier("cold", "x"), area{"cold:", "x"}, ""},
		{location.OfTier("warm", "x"), area{}, "there is no tier warm"},
		{location.OfDataset("imagenet", ""), area{}, "dataset:imagenet is a name"},
		{location.Location{Scheme: "tape", Path: "/data/x"}, area{}, "no rule is about locations of scheme tape"},
		{location.Location{}, area{}, "no rule is about locations of scheme"},
	} {
		got, err := r.areaOf(row.at)
		if got != row.want || (err == nil) != (row.says == "") {
			t.Errorf("%+v: %+v, %v", row.at, got, err)
		}
		if err != nil && (!errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.says)) {
			t.Errorf("%+v: %v, want one that says %q", row.at, err, row.says)
		}
	}
}
