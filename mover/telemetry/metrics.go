package telemetry

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options says what metrics are of. The zero value is of an unknown version, without
// names of a configuration.
type Options struct {
	Version string       // of this program
	Bounds  Bounds       // see [Metrics.Bound]
	Logger  *slog.Logger // of failures of a scrape; nil means no log
	Root    string       // where /proc and /sys are; "" is /
}

// Metrics counts. A nil one counts nothing.
type Metrics struct {
	registry   *prometheus.Registry
	counters   map[string]*prometheus.CounterVec   // by name of the row
	histograms map[string]*prometheus.HistogramVec // by name of the row
	words      known
	log        *slog.Logger
	root       string

	turn chan struct{} // held while hooks run: one scrape at a time

	mu     sync.Mutex // guards all below
	kept   map[series]float64
	hooks  map[int]func(*Sample)
	nextID int
}

// New returns metrics with a registry of their own, which also tells of the process
// and of the Go runtime.
func New(o Options) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		counters: map[string]*prometheus.CounterVec{}, histograms: map[string]*prometheus.HistogramVec{},
		log: o.Logger, root: cmp.Or(o.Root, "/"), turn: make(chan struct{}, 1),
		kept: map[series]float64{}, hooks: map[int]func(*Sample){},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), newSampler(m))
	for _, r := range table {
		m.register(r)
	}
	m.Bound(o.Bounds)
	m.keep(rowBuild, 1, o.Version, runtime.Version())
	return m
}

// register makes what counts a row. What is asked for is the sampler's.
func (m *Metrics) register(r Row) {
	switch {
	case r.Type == "histogram":
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: r.Name, Help: r.Meaning, Buckets: r.buckets}, r.Labels)
		m.registry.MustRegister(v)
		m.histograms[r.Name] = v
	case !r.asked:
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: r.Name, Help: r.Meaning}, r.Labels)
		m.registry.MustRegister(v)
		m.counters[r.Name] = v
	}
}

// Bound adds names that labels may show. Counters with one label are there from then
// on with every word that it can have: a counter that appears together with its first
// event looks to Prometheus as if there was none.
func (m *Metrics) Bound(b Bounds) {
	if m == nil {
		return
	}
	m.words.add(b)
	for _, r := range table {
		v := m.counters[r.Name]
		switch {
		case v == nil || len(r.Labels) > 1:
		case len(r.Labels) == 0:
			v.WithLabelValues()
		default:
			for _, w := range m.words.all(r.Labels[0]) {
				v.WithLabelValues(w)
			}
		}
	}
}

// labels are the values of a row's labels, each within its bound.
func (m *Metrics) labels(r *Row, values []string) []string {
	bound := make([]string, len(r.Labels))
	for i, label := range r.Labels {
		bound[i] = m.words.bound(label, values[i])
	}
	return bound
}

// add counts n, which may come from a process that is not ours: what would take away
// is nothing.
func (m *Metrics) add(c counter, n float64, values ...string) {
	if m != nil && n > 0 {
		m.counters[c.Name].WithLabelValues(m.labels(c.Row, values)...).Add(n)
	}
}

// observe measures. Where the clock went back it measures 0.
func (m *Metrics) observe(h histogram, d time.Duration, values ...string) {
	if m != nil {
		m.histograms[h.Name].WithLabelValues(m.labels(h.Row, values)...).Observe(max(d, 0).Seconds())
	}
}

// keep remembers a fact until it is told anew.
func (m *Metrics) keep(g gauge, v float64, values ...string) {
	if m == nil {
		return
	}
	s := key(g.Row, m.labels(g.Row, values))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[s] = v
}

// shift moves a fact that is kept.
func (m *Metrics) shift(g gauge, by float64, values ...string) {
	s := key(g.Row, m.labels(g.Row, values))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept[s] += by
}

// Handler answers scrapes: four at a time, each within ten seconds.
func (m *Metrics) Handler() http.Handler {
	if m == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            scrapeLog{m.log},
		ErrorHandling:       promhttp.ContinueOnError,
		Registry:            m.registry,
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	})
}

// scrapeLog writes what the scrape has to complain of.
type scrapeLog struct{ log *slog.Logger }

func (l scrapeLog) Println(v ...any) {
	l.log.Warn("scrape of the metrics", "err", strings.TrimSpace(fmt.Sprintln(v...)))
}
