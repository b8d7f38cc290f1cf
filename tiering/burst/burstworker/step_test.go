package burstworker

import (
	"encoding/json"
	"errors"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/burst/pricing"
)

// TestRead: a step reads what is declared now, or what was applied last, and never begins without either.
func TestRead(t *testing.T) {
	for _, row := range []struct {
		name   string
		step   pb.BurstStep
		text   string
		record string
		want   error
	}{
		{"down without a record", pb.BurstStep_BURST_STEP_DOWN, "", "", mover.ErrNotExist},
		{"costs without a record", pb.BurstStep_BURST_STEP_COSTS, "", "", mover.ErrNotExist},
		{"a record that is damaged", pb.BurstStep_BURST_STEP_DOWN, "", "{", mover.ErrCorrupt},
		{"up with a record that is damaged", pb.BurstStep_BURST_STEP_UP, "", "{", mover.ErrCorrupt},
		{"up with a declaration that is none", pb.BurstStep_BURST_STEP_UP, "burst: [", "", mover.ErrUsage},
	} {
		b := &step{work: &pb.BurstWork{Name: "train", Step: row.step, Declaration: row.text}}
		if _, _, err := b.read(&agentv1.ReadBurstResponse{Record: []byte(row.record)}); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
	}
}

// TestAccount: the account of a burst is what the coordinator says, to the micro-dollar, and its refusal has its kind.
func TestAccount(t *testing.T) {
	got := balanceOf(&pb.BurstAccount{Team: "vision", Period: "2027-01", CapMicros: 5, SpentMicros: 1, ReservedMicros: 2, FreeMicros: 3})
	if got.Team != "vision" || got.Period != "2027-01" || got.Cap != pricing.Money(5) || got.Spent != 1 || got.Reserved != 2 || got.Free != 3 {
		text, _ := json.Marshal(got)
		t.Errorf("the account is %s", text)
	}
	var err error = &noMoney{"the cap of vision is reached", mover.ErrQuota}
	if err.Error() != "the cap of vision is reached" || !errors.Is(err, mover.ErrQuota) {
		t.Errorf("%v", err)
	}
}
