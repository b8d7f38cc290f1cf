package coordinator

import (
	"context"
	"reflect"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/authz"
)

// registered keeps what is registered.
type registered map[*grpc.ServiceDesc]any

func (r registered) RegisterService(desc *grpc.ServiceDesc, impl any) { r[desc] = impl }

// TestEveryCallIsServed: each method of each registered service is one of the part that is registered for it, and not that which
// answers for a method that a server does not have.
func TestEveryCallIsServed(t *testing.T) {
	parts := func() registered {
		d, all := newDesk(t, &config.Config{}, authz.Input{}), registered{}
		for _, server := range []interface{ Register(r grpc.ServiceRegistrar) }{d.Service, d.datasets, d.catalog, d.policy, d.Server} {
			server.Register(all)
		}
		agentv1.RegisterLinkServiceServer(all, d.Server.Link(d.policy.Link(d.catalog.Link(d.datasets.Link(d.Service.Link())))))
		return all
	}
	all, calls := parts(), 0
	for desc := range all {
		for _, name := range callsOf(desc) {
			calls++
			is, fell := unserved(reflect.ValueOf(all[desc]).MethodByName(name))
			if is {
				t.Errorf("%s.%s is not served", desc.ServiceName, name)
			}
			if fell {
				all = parts() // what it had locked stays so
			}
		}
	}
	if calls < 73 {
		t.Errorf("%d calls were tried", calls)
	}
}

func callsOf(desc *grpc.ServiceDesc) (names []string) {
	for _, m := range desc.Methods {
		names = append(names, m.MethodName)
	}
	for _, m := range desc.Streams {
		names = append(names, m.StreamName)
	}
	return names
}

// unserved calls a method with nothing in a context that has ended, and reports whether it is the one for what a server does not have: all others fail in
// another way, or fall over nothing.
func unserved(method reflect.Value) (is, fell bool) {
	defer func() {
		if recover() != nil {
			is, fell = false, true
		}
	}()
	ended, end := context.WithCancel(context.Background())
	end()
	var in []reflect.Value
	for i := range method.Type().NumIn() {
		if of := method.Type().In(i); of == reflect.TypeFor[context.Context]() {
			in = append(in, reflect.ValueOf(ended))
		} else {
			in = append(in, reflect.Zero(of))
		}
	}
	out := method.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return status.Code(err) == codes.Unimplemented, false
}
