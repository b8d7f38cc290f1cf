package dataset

import (
	"errors"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/clock"
)

func TestTTL(t *testing.T) {
	for _, c := range []struct {
		what string
		ask  *durationpb.Duration
		want time.Duration // 0 is refused
	}{
		{"an hour", durationpb.New(time.Hour), time.Hour},
		{"the shortest", durationpb.New(time.Second), time.Second},
		{"seven days", durationpb.New(7 * 24 * time.Hour), 7 * 24 * time.Hour},
		{"a nanosecond more", durationpb.New(7*24*time.Hour + 1), 0},
		{"too short to be of use", durationpb.New(time.Second - 1), 0},
		{"nothing", durationpb.New(0), 0},
		{"not asked", nil, 0},
		{"backwards", durationpb.New(-time.Hour), 0},
		{"longer than Go can count", &durationpb.Duration{Seconds: math.MaxInt64}, 0},
		{"the longest of protobuf", &durationpb.Duration{Seconds: 315_576_000_000}, 0},
		{"two signs", &durationpb.Duration{Seconds: 3600, Nanos: -1}, 0},
	} {
		got, err := TTL(c.ask)
		if got != c.want || (c.want == 0) != errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: TTL = %v, %v; want %v", c.what, got, err, c.want)
		}
	}
}

func leaseUntil(end time.Time) *datamovev1.Lease {
	return &datamovev1.Lease{Id: "L1", Holder: "slurm:1234", ExpireTime: timestamppb.New(end)}
}

func TestExpired(t *testing.T) {
	for _, c := range []struct {
		what  string
		lease *datamovev1.Lease
		want  bool
	}{
		{"it lasts", leaseUntil(noon.Add(1)), false},
		{"the moment of its end", leaseUntil(noon), true},
		{"long over", leaseUntil(noon.Add(-time.Hour)), true},
		{"damaged: a person has to look", &datamovev1.Lease{}, false},
	} {
		if got := Expired(c.lease, noon); got != c.want {
			t.Errorf("%s: expired %v, want %v", c.what, got, c.want)
		}
	}
}

func TestRenewed(t *testing.T) {
	for _, c := range []struct {
		what string
		had  time.Duration // until its end, from noon
		ttl  time.Duration
		want time.Duration // 0 is refused
	}{
		{"longer", time.Minute, time.Hour, time.Hour},
		{"never shorter", time.Hour, time.Minute, time.Hour},
		{"too late", 0, time.Hour, 0},
		{"much too late", -time.Hour, time.Hour, 0},
	} {
		end, err := Renewed(leaseUntil(noon.Add(c.had)), noon, c.ttl)
		if c.want == 0 {
			if !errors.Is(err, mover.ErrNotExist) {
				t.Errorf("%s: %v, %v", c.what, end, err)
			}
		} else if err != nil || !end.Equal(noon.Add(c.want)) {
			t.Errorf("%s: %v, %v; want %v", c.what, end, err, noon.Add(c.want))
		}
	}
}

// TestExpiredStaysExpired lets a clock jump, days in both directions: what has
// ended by the time of the ledger never lasts again, and is never renewed.
//
//safety:5/datasets with mover/coordinator TestClock
func TestExpiredStaysExpired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jump := rapid.Int64Range(-int64(10*24*time.Hour), int64(10*24*time.Hour))
		lease := leaseUntil(noon.Add(time.Duration(rapid.Int64Range(0, int64(MaxTTL)).Draw(t, "ttl"))))
		wall, now, over := noon, noon, false
		for range 20 {
			wall = wall.Add(time.Duration(jump.Draw(t, "jump")))
			now = clock.Forward(now, wall)
			if over && !Expired(lease, now) {
				t.Fatalf("the lease until %v lasts again at %v", lease.GetExpireTime().AsTime(), now)
			}
			over = Expired(lease, now)
			if end, err := Renewed(lease, now, time.Hour); over != (err != nil) {
				t.Fatalf("over is %v, and Renewed says %v, %v", over, end, err)
			}
		}
	})
}
