package server

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// describe finds a method by its full name; nil is none that this program knows.
func describe(full string) protoreflect.MethodDescriptor {
	service, method, ok := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	if !ok || !protoreflect.FullName(service).IsValid() {
		return nil
	}
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		return nil
	}
	s, ok := found.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil
	}
	return s.Methods().ByName(protoreflect.Name(method))
}

// foreign are services of gRPC's own. They only tell.
func foreign(full string) bool {
	return strings.HasPrefix(full, "/grpc.health.v1.") || strings.HasPrefix(full, "/grpc.reflection.")
}

// public reports whether a method is for people, and not between agents and coordinator.
func public(full string) bool { return strings.HasPrefix(full, "/datamove.v1.") || foreign(full) }

// reads reports whether a method changes nothing.
func reads(full string) bool {
	if foreign(full) {
		return true
	}
	m := describe(full)
	if m == nil {
		return false
	}
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// waits reports whether a method may take as long as it takes: streams, and what an
// agent asks of its coordinator.
func waits(full string) bool {
	if strings.HasPrefix(full, link) {
		return true
	}
	m := describe(full)
	return m != nil && (m.IsStreamingServer() || m.IsStreamingClient())
}

const link = "/" + "datamove.agent.v1.LinkService" + "/"

// recorded reports whether an allowed call of a method is recorded.
func recorded(full string) bool {
	if strings.HasPrefix(full, link) {
		return full == agentv1.LinkService_Attend_FullMethodName
	}
	return !reads(full)
}
