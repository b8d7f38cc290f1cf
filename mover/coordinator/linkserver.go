package coordinator

import (
	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// linkServer answers agents and workers: each call is one of the part that it is about.
type linkServer struct {
	unimplementedLink
	*agentServer
	*scheduler
	*pathResolver
}

// unimplementedLink is one level deeper than the parts, so that their methods come first.
type unimplementedLink struct {
	agentv1.UnimplementedLinkServiceServer
}

// Link is what agents and workers call. A server beside the coordinator may add to it.
func (s *Service) Link() agentv1.LinkServiceServer {
	return &linkServer{agentServer: s.agents, scheduler: s.scheduler, pathResolver: s.paths}
}
