package agent

import (
	"testing"
	"testing/synctest"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/fairshare"
	"datamove.dev/test/must"
)

// TestPayShared: who reads a source with others pays for what it reads of it, and not for what they give.
func TestPayShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Agent{turns: newTurns()}
		a.turns.limit(&agentv1.Limits{Limits: []*agentv1.Limit{{Endpoint: "cold", BytesPerSecond: 1 << 20}}})
		p := &process{agent: a, turns: map[uint64]func(fairshare.Cost){}, charges: []fairshare.Charge{{Endpoint: "cold"}, {Endpoint: "hot", Write: true}}}
		took := func(f func() error) time.Duration {
			begun := time.Now()
			must.Do(t, f())
			return time.Since(begun)
		}
		turn := func(shared bool) func() error {
			return func() error {
				r, err := p.Turn(t.Context(), &agentv1.TurnRequest{Bytes: 20 << 20, Shared: shared})
				if err == nil {
					_, err = p.EndTurn(t.Context(), &agentv1.EndTurnRequest{Turn: r.GetTurn(), Moved: 20 << 20})
				}
				return err
			}
		}
		if d := took(turn(true)); d > 0 {
			t.Errorf("what others give has waited for %v", d)
		}
		pay := func() error {
			_, err := p.Pay(t.Context(), &agentv1.PayRequest{Bytes: 10 << 20})
			return err
		}
		if d := took(pay) + took(pay); d < 8*time.Second || d > 25*time.Second {
			t.Errorf("20 MiB at 1 MiB/s have waited for %v", d)
		}
		if d := took(turn(false)); d < 8*time.Second {
			t.Errorf("what one reads alone has waited for %v", d)
		}
		a.turns.limit(&agentv1.Limits{})
		if r, err := p.Pay(t.Context(), &agentv1.PayRequest{Bytes: 1 << 40}); err != nil || r.GetPass().AsDuration() == 0 {
			t.Errorf("without a limit: %v, %v", r, err)
		}
	})
}
