package spotnotice

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"datamove.dev/mover"
)

// Every is how long it is between two questions for notices: AWS recommends every 5 seconds.
const Every = 5 * time.Second

// Watcher asks the metadata service for notices. The zero Watcher asks that of this instance.
type Watcher struct {
	Endpoint string            // "" is AWS_EC2_METADATA_SERVICE_ENDPOINT, or http://169.254.169.254
	Insists  bool              // a service that is not there at first is asked on
	Through  http.RoundTripper // nil is a connection of its own, through no proxy
	Log      *slog.Logger      // nil means no log
}

// Run tells of each notice that is given, once, until ctx ends, which is no error. mover.ErrUnreachable: there is no metadata service, as far as one question
// within Patience tells. One that answers with 503 is there: it limits how often it is asked, by all of the instance (EC2 user guide, "Instance metadata", "Query throttling").
func (w *Watcher) Run(ctx context.Context, tell func(Notice)) error {
	s := newService(w.Endpoint, w.Through)
	defer s.http.CloseIdleConnections()
	if _, err := s.get(ctx, "instance-id"); err != nil && !errors.Is(err, errNone) && !errors.Is(err, mover.ErrTransient) && !w.Insists {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	tick := time.NewTicker(Every)
	defer tick.Stop()
	told, silent := map[Kind]Notice{}, map[string]bool{}
	for {
		for _, it := range items {
			n, given, err := s.read(ctx, it)
			w.say(ctx, it.path, err, silent)
			if given && told[n.Kind] != n {
				told[n.Kind] = n
				tell(n)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// read asks for one item.
func (s *service) read(ctx context.Context, it item) (n Notice, given bool, err error) {
	text, err := s.get(ctx, it.path)
	if errors.Is(err, errNone) {
		return n, false, nil
	}
	if err != nil {
		return n, false, err
	}
	return it.read(text)
}

// say logs that something can not be asked for, once, and that it can again.
func (w *Watcher) say(ctx context.Context, path string, err error, silent map[string]bool) {
	was := silent[path]
	if silent[path] = err != nil; w.Log == nil || ctx.Err() != nil || was == silent[path] {
		return
	}
	if err != nil {
		w.Log.WarnContext(ctx, "notices of EC2 can not be asked for, will try again", "item", path, "err", err)
		return
	}
	w.Log.InfoContext(ctx, "notices of EC2 can be asked for again", "item", path)
}
