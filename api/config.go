package api

import (
	"encoding/json"
	"fmt"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// files are the .proto files with public services.
var files = []protoreflect.FileDescriptor{
	datamovev1.File_datamove_v1_task_proto,
	datamovev1.File_datamove_v1_dataset_proto,
	datamovev1.File_datamove_v1_admin_proto,
	datamovev1.File_datamove_v1_catalog_proto,
	datamovev1.File_datamove_v1_policy_proto,
	datamovev1.File_datamove_v1_burst_proto,
}

// method is one line of a gRPC service config.
type method struct {
	Name    []methodName `json:"name"`
	Timeout string       `json:"timeout,omitempty"`
	Retry   *retry       `json:"retryPolicy,omitempty"`
}

type methodName struct {
	Service string `json:"service"`
	Method  string `json:"method"`
}

type retry struct {
	MaxAttempts       int      `json:"maxAttempts"`
	InitialBackoff    string   `json:"initialBackoff"`
	MaxBackoff        string   `json:"maxBackoff"`
	BackoffMultiplier float64  `json:"backoffMultiplier"`
	Codes             []string `json:"retryableStatusCodes"`
}

// serviceConfig tells gRPC how long each method may take, and which ones it may
// call again by itself: those that say so in their .proto.
var serviceConfig = sync.OnceValue(func() string {
	var all struct {
		Methods []method `json:"methodConfig"`
	}
	for _, m := range methods() {
		all.Methods = append(all.Methods, configOf(m))
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // it holds nothing but strings and numbers
	}
	return string(text)
})

// methods are all methods of the public services.
func methods() []protoreflect.MethodDescriptor {
	var all []protoreflect.MethodDescriptor
	for _, file := range files {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				all = append(all, service.Methods().Get(j))
			}
		}
	}
	return all
}

func configOf(m protoreflect.MethodDescriptor) method {
	c := method{Name: []methodName{{string(m.Parent().FullName()), string(m.Name())}}}
	if !m.IsStreamingServer() && !m.IsStreamingClient() {
		c.Timeout = fmt.Sprintf("%.0fs", callTime.Seconds())
	}
	if repeatable(m) {
		c.Retry = &retry{4, "0.2s", "2s", 2, []string{"UNAVAILABLE"}}
	}
	return c
}

// repeatable reports whether a method may be called twice.
func repeatable(m protoreflect.MethodDescriptor) bool {
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}
