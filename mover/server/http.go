package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
)

// Viewer is the caller of the page without a certificate. No account has that uid.
var Viewer = authz.Caller{Name: "viewer", UID: ^uint32(0), Via: authz.Local}

// pageMethod is the method that a reader of the page must be allowed: the service's own facts.
const pageMethod = datamovev1.AdminService_GetInfo_FullMethodName

// slowTime is how long a peer may take for an answer that is not the gateway's, which
// has its own patience.
const slowTime = 30 * time.Second

// healthTime is how long we are asked for how we are.
const healthTime = 4 * time.Second

type originKey struct{}

// webContext has each request know the origin of its connection.
func webContext(ctx context.Context, conn net.Conn) context.Context {
	if g, is := conn.(*guest); is {
		return context.WithValue(ctx, originKey{}, g.origin)
	}
	return ctx
}

// serveHTTP answers what comes by HTTP/1.
func (d *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	o, known := r.Context().Value(originKey{}).(*peerIdentity)
	if !known {
		o = &peerIdentity{}
	}
	if r.ContentLength != 0 { // net/http reads the body of a refused request, too; at its end the deadline goes
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(slowTime)) // where there is a connection
	}
	if o.scrape {
		d.serveScrape(w, r)
		return
	}
	if !o.secure && !loopback(r.Host) {
		answer(w, http.StatusMisdirectedRequest, mover.ErrPermission, "this is not "+mover.Printable(r.Host)+": call it localhost")
		return
	}
	switch path := r.URL.Path; {
	case path == "/metrics":
		d.serveMetrics(w, r, o)
	case path == "/" || strings.HasPrefix(path, "/page/"):
		if _, ok := d.admitHTTP(w, r, o); ok {
			d.servePage(w, r)
		}
	default:
		if v, ok := d.admitHTTP(w, r, o); ok {
			d.serveAPI(w, r, v)
		}
	}
}

// loopback reports whether a Host header means this machine, so that a foreign page can
// not have its own name lead to us.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// serveMetrics answers scrapes. Without a certificate, on loopback, they are for
// everybody on this machine: they name no person, task or path.
func (d *Server) serveMetrics(w http.ResponseWriter, r *http.Request, o *peerIdentity) {
	if !o.page {
		if _, ok := d.admitHTTP(w, r, o); !ok {
			return
		}
	}
	d.giveMetrics(w, r)
}

func (d *Server) giveMetrics(w http.ResponseWriter, r *http.Request) {
	if !onlyReads(r) {
		answer(w, http.StatusMethodNotAllowed, mover.ErrUnsupported, "metrics can only be read")
		return
	}
	hurry(w)
	d.o.Metrics.Handler().ServeHTTP(w, r)
}

// serveScrape is all that is served to the network without a certificate. It bypasses all that depends on the
// caller.
func (d *Server) serveScrape(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		d.giveMetrics(w, r)
	case "/healthz":
		health := d.o.Health
		if health == nil {
			health = d.Alive
		}
		ctx, cancel := context.WithTimeout(r.Context(), healthTime)
		defer cancel()
		if err := health(ctx); err != nil {
			d.log.Warn("not healthy", "err", err)
			answer(w, http.StatusServiceUnavailable, mover.ErrTransient, "not healthy: the log has more")
			return
		}
		hurry(w)
		fmt.Fprintln(w, "ok")
	default:
		answer(w, http.StatusNotFound, mover.ErrNotExist, "this address has /metrics and /healthz")
	}
}

func (d *Server) servePage(w http.ResponseWriter, r *http.Request) {
	if d.o.Web == nil {
		answer(w, http.StatusNotFound, mover.ErrNotExist, "this service has no page")
		return
	}
	hurry(w)
	d.o.Web.ServeHTTP(w, r)
}

// hurry bounds how long a peer may take what we write.
func hurry(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowTime)) // where there is a connection
}

func onlyReads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// admitHTTP makes a request of a request, and answers it when it may not go on.
func (d *Server) admitHTTP(w http.ResponseWriter, r *http.Request, o *peerIdentity) (*request, bool) {
	words := metadata.MD{api.ForKey: r.Header.Values(api.ForKey)} // no other word of a request counts
	v, err := d.identify(o, "http "+r.Method+" "+r.URL.Path, words)
	if err == nil {
		if o.page {
			d.view(v)
		}
		err = d.enter(r.Context(), v, pageMethod, v.viewer && !onlyReads(r), subject{})
	}
	if err != nil {
		fail(w, err)
		return nil, false
	}
	return v, true
}

var errNoViewer = fmt.Errorf("%w: nobody is known on this address, and it shows nothing but /metrics; "+
	"a role with the member viewer in the configuration (roles) would let everybody on this machine read", mover.ErrPermission)

// view makes the request one of the viewer, where the configuration has one.
func (d *Server) view(v *request) {
	if len(d.o.Rules().Roles(Viewer)) == 0 {
		v.trouble = errNoViewer
		return
	}
	v.caller, v.viewer = Viewer, true
}

type httpCallerKey struct{}

// serveAPI hands a request to the JSON side of the services.
func (d *Server) serveAPI(w http.ResponseWriter, r *http.Request, v *request) {
	gateway, err := d.gatewayOf()
	if err != nil {
		fail(w, err)
		return
	}
	who, err := v.inside()
	if err != nil {
		fail(w, err)
		return
	}
	gateway.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), httpCallerKey{}, who)))
}

// gatewayOf makes the gateway when it is first needed, because it asks our own server.
func (d *Server) gatewayOf() (http.Handler, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gateway != nil {
		return d.gateway, nil
	}
	conn, err := d.innerConn()
	if err != nil {
		return nil, err
	}
	d.gateway, err = api.Gateway(context.Background(), conn, api.GatewayOptions{
		Host:     func(string) bool { return true }, // serveHTTP has looked
		Metadata: func(r *http.Request) metadata.MD { return caller(r.Context()) },
	})
	return d.gateway, err
}

// innerConn leads to our own server, and each call on it carries its caller. It needs mu.
func (d *Server) innerConn() (*grpc.ClientConn, error) {
	if d.inner == nil {
		inner, err := api.Dial(d.ctx, "inside", api.Options{Dialer: d.dialer(d.toAgents, &peerIdentity{inside: true})})
		if err != nil {
			return nil, err
		}
		d.inner = inner
	}
	return d.inner.Conn(), nil
}

// Alive asks the services behind the server whether they serve, with the uid of this process.
func (d *Server) Alive(ctx context.Context) error {
	d.mu.Lock()
	conn, err := d.innerConn()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	who, err := said{UID: d.self, Via: authz.Local, Peer: "inside"}.encode()
	if err != nil {
		return err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, callerKey, who)
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil && answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("%w: %v", mover.ErrTransient, answer.GetStatus())
	}
	return err
}

// caller is the metadata with the caller, for our own server. Nothing of the request is in it.
func caller(ctx context.Context) metadata.MD {
	who, _ := ctx.Value(httpCallerKey{}).(string)
	return metadata.Pairs(callerKey, who)
}

// fail answers with an error, in the form of the JSON side.
func fail(w http.ResponseWriter, err error) {
	code, kind := http.StatusForbidden, err
	var at *mover.Error
	switch {
	case status.Code(err) == codes.Unauthenticated:
		code, kind = http.StatusUnauthorized, mover.ErrPermission
	case errors.Is(err, mover.ErrPermission):
	case errors.Is(err, mover.ErrUsage):
		code = http.StatusBadRequest
	case errors.As(err, &at) && at.After > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int((at.After+time.Second-1)/time.Second)))
		code = http.StatusTooManyRequests
	default:
		code = http.StatusServiceUnavailable
	}
	answer(w, code, kind, sentence(err))
}

func sentence(err error) string {
	if s, is := status.FromError(err); is {
		return s.Message()
	}
	return err.Error()
}

// answer sends an error as the gateway does.
func answer(w http.ResponseWriter, code int, kind error, why string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	hurry(w)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": code, "kind": mover.KindName(kind), "message": why}) // the client may be gone
}
