package nodeproxy_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/csi/nodeproxy"
	"datamove.dev/csi/nodeproxy/relaytest"
	"datamove.dev/test/must"
)

// plugin answers as a driver.
type plugin struct {
	csi.UnimplementedIdentityServer
}

func (plugin) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: "answered"}, nil
}

// serve starts a node, and returns its address.
func serve(t *testing.T, k nodeproxy.Keys) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := grpc.NewServer(grpc.Creds(k.Node()))
	csi.RegisterIdentityServer(server, plugin{})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String()
}

func ask(t *testing.T, k nodeproxy.Keys, address string) (*csi.GetPluginInfoResponse, error) {
	t.Helper()
	f := &nodeproxy.Clients{Keys: k}
	reply := &csi.GetPluginInfoResponse{}
	return reply, f.Ask(t.Context(), nodeproxy.Node{Name: "n1", Address: address}, csi.Identity_GetPluginInfo_FullMethodName, &csi.GetPluginInfoRequest{}, reply)
}

// TestTrust: nobody but the controller is heard by a node, and nobody but a node by the controller.
//
//safety:7 callers other than the controller that ask a node for its scratch, and what the controller can not ask there
func TestTrust(t *testing.T) {
	ours, theirs := relaytest.NewAuthority(t), relaytest.NewAuthority(t)
	controller, node := ours.Keys(t, nodeproxy.ControllerName), ours.Keys(t, nodeproxy.NodeName)
	address := serve(t, node)
	if reply, err := ask(t, controller, address); err != nil || reply.GetName() != "answered" {
		t.Fatalf("%v, %v", reply, err)
	}
	for _, row := range []struct {
		what    string
		keys    nodeproxy.Keys
		address string
	}{
		{"a node asks a node", node, address},
		{"a controller of another authority", theirs.Keys(t, nodeproxy.ControllerName), address},
		{"a node of another authority", controller, serve(t, theirs.Keys(t, nodeproxy.NodeName))},
		{"a controller as a node", controller, serve(t, controller)},
		{"a node whose driver does not run", controller, ""},
	} {
		reply, err := ask(t, row.keys, row.address)
		if err == nil || reply.GetName() != "" {
			t.Errorf("%s: it was answered", row.what)
		}
		if row.address != "" && status.Code(err) != codes.Unavailable {
			t.Errorf("%s: %v", row.what, err)
		}
	}
	plain := must.Get(grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(relaytest.Nobody())))(t)
	defer plain.Close()
	if _, err := csi.NewIdentityClient(plain).GetPluginInfo(t.Context(), &csi.GetPluginInfoRequest{}); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestRotation: certificates are exchanged while a driver runs.
func TestRotation(t *testing.T) {
	before, after := relaytest.NewAuthority(t), relaytest.NewAuthority(t)
	controller, node := before.Keys(t, nodeproxy.ControllerName), before.Keys(t, nodeproxy.NodeName)
	address := serve(t, node)
	if _, err := ask(t, controller, address); err != nil {
		t.Fatal(err)
	}
	after.Write(t, node, nodeproxy.NodeName)
	if _, err := ask(t, controller, address); err == nil {
		t.Error("the node has an authority that the controller does not know, and was believed")
	}
	after.Write(t, controller, nodeproxy.ControllerName)
	if _, err := ask(t, controller, address); err != nil {
		t.Error(err)
	}
}

// TestCheck: what is missing is said by its name.
func TestCheck(t *testing.T) {
	a := relaytest.NewAuthority(t)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		k := a.Keys(t, nodeproxy.NodeName)
		must.Do(t, k.Check())
		path := filepath.Join(string(k), name)
		must.Do(t, os.Remove(path))
		if err := k.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v", err)
		}
		must.Do(t, os.WriteFile(path, []byte("nonsense"), 0o600))
		if k.Check() == nil {
			t.Errorf("nonsense in %s is taken", name)
		}
	}
}
