package browser

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/webui"
	"datamove.dev/test/must"
)

const (
	queued    = datamovev1.TaskState_TASK_STATE_QUEUED
	running   = datamovev1.TaskState_TASK_STATE_RUNNING
	paused    = datamovev1.TaskState_TASK_STATE_PAUSED
	done      = datamovev1.TaskState_TASK_STATE_DONE
	failed    = datamovev1.TaskState_TASK_STATE_FAILED
	cancelled = datamovev1.TaskState_TASK_STATE_CANCELLED
)

var states = []datamovev1.TaskState{queued, running, paused, done, failed, cancelled}

// site is where a page and the API are: an address, and nothing more.
type site struct {
	t       testing.TB
	url     string
	mayFail bool // requests of a page may fail, from its beginning on
}

// house is a site of our own, in front of a world. Its door, which is the HTTP side, and
// the world behind it can go away and come back.
type house struct {
	site
	world   world
	socket  string
	handler http.Handler
	address string
	silence func() // stops the service
	leave   func() // stops the door, and ends all connections
}

func newHouse(t testing.TB, w world) *house {
	t.Helper()
	h := &house{site: site{t: t}, world: w, socket: filepath.Join(t.TempDir(), "s"), address: "127.0.0.1:0"}
	h.speak()
	client := must.Get(api.Dial(t.Context(), "unix://"+h.socket, api.Options{}))(t)
	t.Cleanup(func() { _ = client.Close() })
	gateway := must.Get(api.Gateway(t.Context(), client.Conn(), api.GatewayOptions{}))(t)
	mux := http.NewServeMux()
	mux.Handle("/{$}", webui.Handler())
	mux.Handle("/page/", webui.Handler())
	mux.Handle("/", gateway)
	h.handler = mux
	h.open()
	return h
}

// speak starts the service.
func (h *house) speak() {
	h.t.Helper()
	on := must.Get(net.Listen("unix", h.socket))(h.t)
	server := grpc.NewServer(api.ServerOptions()...)
	h.world.Register(server)
	h.silence = until(func() { _ = server.Serve(on) }, server.Stop)
	h.t.Cleanup(h.silence)
}

// open opens the door, at the address of the last time if there was one.
func (h *house) open() {
	h.t.Helper()
	on := must.Get(net.Listen("tcp", h.address))(h.t)
	h.address = on.Addr().String()
	h.url = "http://" + h.address
	server := &http.Server{Handler: h.handler}
	h.leave = until(func() { _ = server.Serve(on) }, func() { _ = server.Close() })
	h.t.Cleanup(h.leave)
}

// until does work in the background; what it returns stops that.
func until(work, stop func()) func() {
	var wg sync.WaitGroup
	wg.Go(work)
	return sync.OnceFunc(func() {
		stop()
		wg.Wait()
	})
}

// get asks the API.
func (s *site) get(path string, into proto.Message) {
	s.t.Helper()
	r := must.Get(http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+path, nil))(s.t)
	r.Close = true // nothing stays behind
	answer := must.Get(http.DefaultClient.Do(r))(s.t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(s.t)
	if answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: HTTP %d: %s", path, answer.StatusCode, body)
	}
	must.Do(s.t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, into))
}

// task is a task as the API tells it.
func (s *site) task(id string) *datamovev1.Task {
	s.t.Helper()
	task := &datamovev1.Task{}
	s.get("/v1/tasks/"+id, task)
	return task
}
