package quota_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/quota"
)

func TestCheck(t *testing.T) {
	limits := quota.Limits{quota.Tasks: 10, quota.Specs: 64 << 20}
	for _, row := range []struct {
		what       string
		r          quota.Resource
		used, want int64
		refused    bool
	}{
		{"room", quota.Tasks, 9, 1, false},
		{"reached", quota.Tasks, 10, 1, true},
		{"several at once", quota.Tasks, 8, 3, true},
		{"over since the limit became smaller", quota.Tasks, 50, 1, true},
		{"over, and nothing is added", quota.Tasks, 50, 0, false},
		{"less is always allowed", quota.Tasks, 50, -1, false},
		{"bytes", quota.Specs, 64<<20 - 10, 11, true},
		{"a sum that no number holds", quota.Tasks, 5, math.MaxInt64, true},
		{"no limit", quota.Leases, math.MaxInt64, 1, false},
	} {
		err := quota.Check("alice", row.r, row.used, row.want, limits)
		if (err != nil) != row.refused || err != nil && (!errors.Is(err, mover.ErrRefused) || !errors.Is(err, mover.ErrQuota)) {
			t.Errorf("%s: %v, want refused %v", row.what, err, row.refused)
		}
	}
}

// What is counted, and not asked for, may be as much as the limit.
func TestOver(t *testing.T) {
	limits := quota.Limits{quota.Journals: 4 << 30}
	for _, row := range []struct {
		used int64
		over bool
	}{{0, false}, {4 << 30, false}, {4<<30 + 1, true}, {math.MaxInt64, true}} {
		err := quota.Over("alice", quota.Journals, "/var/lib/datamove/agent/users/1001", row.used, limits)
		if (err != nil) != row.over || err != nil && (!errors.Is(err, mover.ErrRefused) || !errors.Is(err, mover.ErrQuota) ||
			!strings.Contains(err.Error(), "/users/1001") || !strings.Contains(err.Error(), "of 4.00 GiB; remove what ")) {
			t.Errorf("%d: %v, want over %v", row.used, err, row.over)
		}
	}
	if err := quota.Over("alice", quota.Journals, "/", 1, nil); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}

// What an account is told has the limit, what it has, what to do, and the key for the operator.
func TestRefusalHelps(t *testing.T) {
	for _, r := range quota.All {
		err := quota.Check("alice", r, 5, 1, quota.Limits{r: 5})
		for _, want := range []string{"alice", r.Text(5), "; ", "quotas.users.alice." + string(r)} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!") {
				t.Errorf("%s: %v\nwant %s", r, err, want)
			}
		}
	}
}

func TestSlots(t *testing.T) {
	for _, row := range []struct {
		percent int64
		of, has int
	}{{75, 16, 12}, {75, 4, 3}, {75, 2, 1}, {75, 1, 1}, {75, 0, 0}, {1, 16, 1}, {100, 16, 16}} {
		if got := (quota.Limits{quota.Slots: row.percent}).Slots(row.of); got != row.has {
			t.Errorf("%d%% of %d slots are %d, want %d", row.percent, row.of, got, row.has)
		}
	}
	if got := (quota.Limits{}).Slots(16); got != 16 {
		t.Errorf("without a limit: %d", got)
	}
}
