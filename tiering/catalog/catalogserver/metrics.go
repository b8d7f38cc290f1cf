package catalogserver

import (
	"context"

	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/catalog"
)

// sampled has metrics tell of the catalog, until ctx ends.
func (s *Server) sampled(ctx context.Context) {
	defer s.o.Metrics.Sample(s.sample)()
	<-ctx.Done()
}

// sample tells how fresh the catalog is where the configuration has it kept fresh.
func (s *Server) sample(m *telemetry.Sample) {
	if s.o.Catalog == nil {
		return
	}
	for name, t := range s.conf().Tiers {
		if t.Scan == 0 && t.Feed == "" {
			continue
		}
		nodes := []string{""}
		if t.NodeLocal {
			nodes = s.c.Reaching(name)
		}
		for _, node := range nodes {
			tree := catalog.Tree{Tier: name, Node: node}
			state, err := s.o.Catalog.State(tree)
			if err != nil {
				return // what is not told is not there
			}
			m.Catalog(name, node, s.AsOf(&state), state.Scan.Files)
			if t.Feed != "" {
				m.Feed(name, node, s.Follows(tree))
			}
		}
	}
}
