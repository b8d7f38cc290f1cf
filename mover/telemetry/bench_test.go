package telemetry

import (
	"fmt"
	"testing"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// BenchmarkScrape is a scrape of a coordinator with 1,000 agents.
func BenchmarkScrape(b *testing.B) {
	m := New(Options{Bounds: site})
	agents := make([]Agent, 1000)
	for i := range agents {
		agents[i] = Agent{Name: fmt.Sprint("node-", i), State: datamovev1.AgentState_AGENT_STATE_READY}
	}
	m.Sample(func(s *Sample) { s.Agents(agents) })
	everything(m)
	for b.Loop() {
		if _, err := m.registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMoved is one progress of a task.
func BenchmarkMoved(b *testing.B) {
	m := New(Options{Bounds: site})
	for b.Loop() {
		m.Moved(Flow{"cold", "warm", stage}, 1, 1<<20)
	}
}
