package kubeauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"datamove.dev/mover"
)

const (
	publishEvery = 10 * time.Minute // another writer may have written over it
	firstPause   = time.Second      // after a try that failed
	maxPause     = time.Minute
)

// Publisher keeps a value in a ConfigMap that is there.
type Publisher struct {
	Client    *Client
	ConfigMap string // NAMESPACE/NAME
	Key       string
	Value     func() string // of the moment
	Failed    func(error)   // told when it could not be written; it is tried again
}

// Run writes it now, and again and again, until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	for pause := firstPause; ; {
		wait := publishEvery
		if err := p.publish(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			p.Failed(err)
			wait, pause = pause, min(2*pause, maxPause)
		} else {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (p *Publisher) publish(ctx context.Context) error {
	namespace, name, ok := strings.Cut(p.ConfigMap, "/")
	if !ok {
		return fmt.Errorf("%w: the ConfigMap is %s: it has to be NAMESPACE/NAME", mover.ErrUsage, mover.Printable(p.ConfigMap))
	}
	path := "/api/v1/namespaces/" + url.PathEscape(namespace) + "/configmaps/" + url.PathEscape(name)
	body := map[string]any{"data": map[string]string{p.Key: p.Value()}}
	return p.Client.call(ctx, http.MethodPatch, path, "application/merge-patch+json", body, nil)
}
