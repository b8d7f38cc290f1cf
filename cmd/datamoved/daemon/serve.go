package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"

	"datamove.dev/mover"
	"datamove.dev/mover/agent"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/kvstore"
	"datamove.dev/mover/server"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/telemetry"
	"datamove.dev/mover/webui"
)

// host is what every datamoved has, whatever it is.
type host struct {
	at       paths
	log      *slog.Logger
	live     *live
	metrics  *telemetry.Metrics
	audit    *auditlog.Log
	ballast  *kvstore.Ballast // of a coordinator
	manager  manager
	accounts *osaccount.Directory
	sockets  []net.Listener // that systemd opened
	hup      <-chan os.Signal
}

// doorStop is how long callers may go on when we stop. What takes longer they try again.
const doorStop = 5 * time.Second

// serve is the service, until ctx ends.
func (a *app) serve(ctx context.Context) error {
	hup := make(chan os.Signal, 1) // from now on SIGHUP does not end the process
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	h, err := a.host()
	if err != nil {
		return err
	}
	h.hup = hup
	lock, err := hold(h.at.data)
	if err != nil {
		return err
	}
	defer lock.release()
	if err := restored(h.at.data); err != nil {
		return err
	}
	h.removeBroker()
	if a.flags.join == "" { // before all that writes there
		if h.ballast, err = state.OpenBallast(h.at.data, h.log); err != nil {
			return &mover.Error{Op: "keep room in", Location: h.at.data, Err: err}
		}
		if err := h.waitForRoom(ctx); err != nil {
			return err
		}
	}
	if err := h.open(ctx); err != nil {
		return err
	}
	flush, err := telemetry.Tracing(ctx, h.live.config.Load().Trace.Endpoint, slog.String("service.name", "datamoved"),
		slog.String("service.version", buildVersion()), slog.String("service.instance.id", h.at.node))
	if err == nil {
		if a.flags.join != "" {
			err = a.serveAgent(ctx, h)
		} else {
			err = a.serveCoordinator(ctx, h)
		}
		err = errors.Join(err, flush(ctx))
	}
	err = errors.Join(err, h.audit.Close())
	if err == nil {
		h.log.Info("ended")
	}
	return err
}

// A disk that is too full to begin is looked at every roomLook, and the log says it again after so many looks.
const (
	roomLook  = time.Second
	roomAgain = 60
)

// waitForRoom waits on a full disk, of which others have the blocks of the ballast, too: an end would have systemd start it some times within seconds, and never again.
// Room ends the wait, and ctx: that of systemd after its TimeoutStartSec, and it begins anew.
func (h *host) waitForRoom(ctx context.Context) error {
	tick := time.NewTicker(roomLook)
	defer tick.Stop()
	for n := 0; ; n++ {
		err := h.ballast.Room()
		if err == nil && n > 0 {
			h.log.Info("the disk has room again: the service begins", "directory", h.at.data)
		}
		if !errors.Is(err, mover.ErrFull) {
			return err
		}
		if n%roomAgain == 0 {
			h.log.Error("the disk is full: the service begins when there is room", "err", err)
			h.manager.status("%s; it begins by itself when there is room", err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// host reads what it has to know.
func (a *app) host() (*host, error) {
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	slog.SetDefault(log)
	grpclog.SetLoggerV2(grpcLog{log})
	if a.flags.join != "" && a.flags.noAgent {
		return nil, mover.Misusef("--join and --no-agent exclude each other: there would be nothing left to do")
	}
	conf, err := a.load()
	if err != nil {
		return nil, err
	}
	if err := twice(conf.HSM); err != nil {
		return nil, err
	}
	for _, p := range conf.Warnings() {
		log.Warn(p.String())
	}
	h := &host{log: log, manager: manager{log}, accounts: accountsOf(conf.Accounts)}
	if h.at, err = a.place(conf); err != nil {
		return nil, err
	}
	if h.live, err = newLive(conf, a.load, log); err != nil {
		return nil, err
	}
	h.sockets, err = server.Activated()
	return h, err
}

// accountsOf are those of this node, or of the files in a directory.
func accountsOf(dir string) *osaccount.Directory {
	if dir == "" {
		return osaccount.New()
	}
	return osaccount.In(dir)
}

// open opens what both kinds have in the directory.
func (h *host) open(context.Context) (err error) {
	conf := h.live.config.Load()
	h.metrics = telemetry.New(telemetry.Options{Version: buildVersion(), Bounds: bounds(conf), Logger: h.log})
	h.live.metrics = h.metrics
	h.metrics.Reloaded(nil)
	dir := cmp.Or(conf.Audit.Dir, filepath.Join(h.at.data, "audit"))
	h.audit, err = auditlog.Open(dir, auditlog.Options{NoSync: !conf.Audit.Sync, Logger: h.log})
	if err != nil {
		return err
	}
	h.metrics.Sample(func(s *telemetry.Sample) {
		s.AuditHead(h.audit.Head().Sequence)
		s.ClientCaches(tierPaths(h.live.config.Load()))
	})
	return nil
}

func tierPaths(c *config.Config) map[string]string {
	paths := map[string]string{}
	for name, t := range c.Tiers {
		if t.Path != "" {
			paths[name] = t.Path
		}
	}
	return paths
}

// record writes a decision down.
func (h *host) record(ctx context.Context, r auditlog.Record) error {
	err := h.audit.Append(ctx, r)
	h.metrics.Audited(err)
	return err
}

// recordOf records a decision of the service in the audit log, with what the server knows of the call.
func (h *host) recordOf(ctx context.Context, r auditlog.Record) error {
	return h.record(ctx, server.Complete(ctx, r))
}

// doorOptions are the options of each server.
func (h *host) doorOptions() server.Options {
	return server.Options{
		Listen: h.at.listen, Activated: h.sockets, Page: h.at.page, Scrape: h.at.scrape, Accounts: h.accounts, Audit: h.record, Web: webui.Handler(),
		Server: telemetry.ServerOptions(), Metrics: h.metrics, Logger: h.log,
	}
}

// serving runs a server as a part.
func serving(d *server.Server) *part {
	return begin("door", d.Serve, func() {
		ctx, cancel := context.WithTimeout(context.Background(), doorStop)
		defer cancel()
		d.Stop(ctx)
	})
}

// ourselves starts a worker: this very program, also when its file was replaced by the
// next version.
var ourselves = []string{"", workerCommand}

// agentParts are the agent of this node, and what it serves beside tasks within the limits
// that the agent hears of.
func (h *host) agentParts(coordinator grpc.ClientConnInterface, peers *peers) ([]*part, error) {
	unix.Umask(0o022) // users have to get through the directories that lead to theirs
	dir := filepath.Join(h.at.data, "agent")
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	a, err := agent.New(agent.Options{
		Name: h.at.node, Version: buildVersion(), Coordinator: coordinator, Data: dir, Program: ourselves,
		Config: h.live.config.Load, Accounts: h.accounts, Logger: h.log, Metrics: h.metrics, Peers: peers.agent(), Parts: h.roomParts, FeedReach: feedReach, Home: h.home,
		Spares: h.ballast.Spares,
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(h.hsmParts(a.Pay), peers.parts(), h.jobsParts(), []*part{until("agent", a.Run)}), nil
}

// run has parts work until ctx ends, and tells the service manager.
func (h *host) run(ctx context.Context, what string, alive func(context.Context) error, d *server.Server, parts ...*part) error {
	status := what + " at " + strings.Join(d.Addresses(), ", ")
	h.log.Info("ready", "node", h.at.node, "what", what, "version", buildVersion(), "data", h.at.data, "addresses", strings.Join(d.Addresses(), " "), "page", d.PageAddress(), "scrape", d.ScrapeAddress())
	h.manager.ready(status)
	own := []*part{
		until("reload", func(ctx context.Context) error { return h.reloads(ctx, status) }),
		until("watchdog", func(ctx context.Context) error { return h.manager.watched(ctx, alive) }),
	}
	return attend(ctx, func() {
		h.log.Info("stopping: work is put back", "again", "at once")
		h.manager.stopping()
	}, append(own, parts...)...)
}

// reloads reads the configuration at each SIGHUP.
func (h *host) reloads(ctx context.Context, status string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.hup:
		}
		h.manager.reloading()
		if _, err := h.live.reload(); err != nil {
			h.log.Error("configuration not read: nothing has changed", "err", err)
			h.manager.ready("configuration not read: nothing has changed; " + status)
			continue
		}
		h.manager.ready(status)
	}
}
