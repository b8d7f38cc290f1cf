package daemon

import (
	"cmp"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"datamove.dev/mover/config"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
	"datamove.dev/tiering/policy"
)

// live is the configuration of this moment, and the rules that it makes.
type live struct {
	read     func() (*config.Config, error)
	log      *slog.Logger
	metrics  *telemetry.Metrics // set before the first reload
	started  *config.Config     // with what needs a restart
	config   atomic.Pointer[config.Config]
	rules    atomic.Pointer[authz.Rules]
	policies atomic.Pointer[[]*policy.Program]

	mu sync.Mutex // held while the file is read again
}

// newLive takes the configuration that was read at the start.
func newLive(c *config.Config, read func() (*config.Config, error), log *slog.Logger) (*live, error) {
	rules, err := rulesOf(c)
	if err != nil {
		return nil, err
	}
	policies, err := policiesOf(c)
	if err != nil {
		return nil, err
	}
	l := &live{read: read, log: log, started: c}
	l.policies.Store(&policies)
	l.config.Store(c)
	l.rules.Store(rules)
	return l, nil
}

// rulesOf makes rules of a configuration.
func rulesOf(c *config.Config) (*authz.Rules, error) {
	in := authz.Input{
		UID: uint32(os.Geteuid()), Tiers: map[string]string{}, Projects: map[string]authz.Project{},
		Roles: map[string]authz.Role{}, Users: map[string]string{},
	}
	for name, t := range c.Tiers {
		in.Tiers[name] = t.Path
	}
	for name, p := range c.Projects {
		in.Projects[name] = authz.Project{Roots: p.Roots, Reads: p.Reads, Members: p.Members}
	}
	for name, r := range c.Roles {
		in.Roles[name] = authz.Role{Members: r.Members, May: r.May}
	}
	for person, u := range c.Users {
		in.Users[u.Certificate] = person
	}
	return authz.New(in)
}

// policiesOf reads the policies that a configuration names.
func policiesOf(c *config.Config) ([]*policy.Program, error) {
	if c.Policies == "" {
		return nil, nil
	}
	return policy.ReadDir(c.Policies, func(tier string) bool { return c.Tiers[tier].Level != "" })
}

// changedPolicies says which policies differ: "policy NAME" where what it says has changed, with "new" or "gone" where there is one of the two.
func changedPolicies(from, to []*policy.Program) (changed []string) {
	digests := map[policy.Name]string{}
	for _, p := range from {
		digests[p.Policy.Metadata.Name] = p.Policy.Digest()
	}
	for _, p := range to {
		name := p.Policy.Metadata.Name
		before, known := digests[name]
		switch {
		case !known:
			changed = append(changed, "policy "+string(name)+" (new)")
		case before != p.Policy.Digest():
			changed = append(changed, "policy "+string(name))
		}
		delete(digests, name)
	}
	for name := range digests {
		changed = append(changed, "policy "+string(name)+" (gone)")
	}
	slices.Sort(changed)
	return changed
}

// reload reads the configuration again and takes it up wholly, or with a mistake in
// it not at all. It returns the keys and policies that have changed.
func (l *live) reload() (changed []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.metrics.Reloaded(err) }()
	c, err := l.read()
	if err != nil {
		return nil, err
	}
	rules, err := rulesOf(c)
	if err != nil {
		return nil, err
	}
	policies, err := policiesOf(c)
	if err != nil {
		return nil, err
	}
	changed = append(config.Changed(l.config.Load(), c), changedPolicies(*l.policies.Load(), policies)...)
	l.policies.Store(&policies)
	l.config.Store(c)
	l.rules.Store(rules)
	l.metrics.Bound(bounds(c))
	l.log.Info("configuration read again", "file", cmp.Or(c.File, "none"), "changed", strings.Join(changed, " "),
		"at the next start", strings.Join(l.waiting(c), " "))
	return changed, nil
}

// waiting are the keys that count only at the next start, and differ from what runs.
func (l *live) waiting(c *config.Config) []string {
	return slices.DeleteFunc(config.Changed(l.started, c), func(key string) bool { return !config.NeedsRestart(key) })
}

// bounds are the names that metrics may show.
func bounds(c *config.Config) telemetry.Bounds {
	var b telemetry.Bounds
	for name := range c.Tiers {
		b.Tiers = append(b.Tiers, name)
	}
	for name := range c.Projects {
		b.Projects = append(b.Projects, name)
	}
	for _, l := range c.Limits {
		b.Endpoints = append(b.Endpoints, l.Endpoint)
	}
	slices.Sort(b.Tiers) // of too many, the same ones after each start
	slices.Sort(b.Projects)
	return b
}
