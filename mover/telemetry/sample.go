package telemetry

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxSeries bounds the facts of one scrape.
const maxSeries = 100_000

// series is one line of a scrape: a row and the values of its labels.
type series struct {
	name   string
	labels [2]string
}

func key(r *Row, values []string) series {
	s := series{name: r.Name}
	copy(s.labels[:], values)
	return s
}

// Sample is how things are at the moment of a scrape. What is not told is not there:
// a tier that was removed, an agent that was forgotten. Facts that share a series,
// because it is "other", are summed.
type Sample struct {
	m       *Metrics
	values  map[series]float64
	agents  words
	dropped int
}

// Sample has hook asked at every scrape until forget is called. Hooks are called one
// after the other; one that waits makes the scrape fail, and no more.
func (m *Metrics) Sample(hook func(*Sample)) (forget func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.nextID
	m.nextID++
	m.hooks[id] = hook
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.hooks, id)
	}
}

// sample asks everybody.
func (m *Metrics) sample() *Sample {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	m.mu.Lock()
	s := &Sample{m: m, values: maps.Clone(m.kept), agents: words{}}
	var hooks []func(*Sample)
	for _, id := range slices.Sorted(maps.Keys(m.hooks)) {
		hooks = append(hooks, m.hooks[id])
	}
	m.mu.Unlock()
	for _, hook := range hooks {
		hook(s)
	}
	s.put(rowClock.Row, float64(time.Now().UnixMilli())/1000)
	s.values[key(rowDropped.Row, nil)] = float64(s.dropped)
	return s
}

// change sets a series to what f makes of its value, of which it may have none yet.
func (s *Sample) change(r *Row, f func(old float64, has bool) float64, values ...string) {
	bound := s.m.labels(r, values)
	for i, label := range r.Labels {
		if label == "agent" {
			bound[i] = s.agent(bound[i])
		}
	}
	k := key(r, bound)
	old, has := s.values[k]
	if !has && len(s.values) >= maxSeries {
		s.dropped++
		return
	}
	s.values[k] = f(old, has)
}

// agent counts the agents that have a name in this scrape.
func (s *Sample) agent(name string) string {
	if name == "" || s.agents[name] {
		return name
	}
	if len(s.agents) >= maxAgents {
		return other
	}
	s.agents[name] = true
	return name
}

func (s *Sample) put(r *Row, v float64, values ...string) {
	s.change(r, func(float64, bool) float64 { return v }, values...)
}

func (s *Sample) sum(r *Row, v float64, values ...string) {
	s.change(r, func(old float64, _ bool) float64 { return old + v }, values...)
}

func (s *Sample) greatest(r *Row, v float64, values ...string) {
	s.change(r, func(old float64, has bool) float64 {
		if has {
			return max(old, v)
		}
		return v
	}, values...)
}

func (s *Sample) least(r *Row, v float64, values ...string) {
	s.change(r, func(old float64, has bool) float64 {
		if has {
			return min(old, v)
		}
		return v
	}, values...)
}

// sampler gives Prometheus what the hooks tell.
type sampler struct {
	m    *Metrics
	rows map[string]described
}

// described is a row as Prometheus wants to know it.
type described struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	labels int
}

func newSampler(m *Metrics) sampler {
	s := sampler{m, map[string]described{}}
	for _, r := range table {
		if r.asked {
			d := described{prometheus.NewDesc(r.Name, r.Meaning, r.Labels, nil), prometheus.GaugeValue, len(r.Labels)}
			if r.Type == "counter" {
				d.kind = prometheus.CounterValue
			}
			s.rows[r.Name] = d
		}
	}
	return s
}

// Describe implements prometheus.Collector.
func (c sampler) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.rows {
		to <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (c sampler) Collect(to chan<- prometheus.Metric) {
	for k, v := range c.m.sample().values {
		d := c.rows[k.name]
		to <- prometheus.MustNewConstMetric(d.desc, d.kind, v, k.labels[:d.labels]...)
	}
}
