// Package metrics counts what the driver does, for Prometheus.
//
// Its words are those of [Table]: each metric, with what it means. It asks no file system: what is known of
// them, package csi finds out and says here.
package metrics

import (
	"context"
	"net/http"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Row is one metric.
type Row struct {
	Name, Type, Meaning string
	Labels              []string
}

// The metrics, as Table has them.
const (
	calls = iota
	callSeconds
	callsNow
	oldest
	hanging
	up
	total
	free
	promised
	volumes
	ill
)

// Table is every metric of the driver itself.
var Table = [...]Row{
	calls:       {"datamove_csi_calls_total", "counter", "calls of Kubernetes that ended, by method and code of gRPC", []string{"method", "code"}},
	callSeconds: {"datamove_csi_call_seconds", "histogram", "how long they took", []string{"method"}},
	callsNow:    {"datamove_csi_calls_now", "gauge", "volumes and mounts that are being worked on", nil},
	oldest:      {"datamove_csi_oldest_call_seconds", "gauge", "for how long the oldest of them has been", nil},
	hanging:     {"datamove_csi_hanging_processes", "gauge", "processes that the kernel keeps in a file system that does not answer", []string{"file_system"}},
	up:          {"datamove_csi_file_system_up", "gauge", "1 when a file system answered the last time that it was looked at", []string{"file_system"}},
	total:       {"datamove_csi_file_system_bytes", "gauge", "its size", []string{"file_system"}},
	free:        {"datamove_csi_file_system_free_bytes", "gauge", "what it has left", []string{"file_system"}},
	promised:    {"datamove_csi_promised_bytes", "gauge", "capacities of the volumes on it, with those in the trash; the controller tells it, of scratch its node", []string{"file_system"}},
	volumes:     {"datamove_csi_volumes", "gauge", "volumes on it; the controller tells it, of scratch its node", []string{"file_system"}},
	ill:         {"datamove_csi_ill_volumes", "gauge", "volumes that something is wrong with, by what that is", []string{"reason"}},
}

// Now is what is asked for at each scrape. It must not hang.
type Now struct {
	Busy    func() (n int, oldest time.Duration)
	Hanging func() map[string]int // by file system
}

// Metrics are those of one driver. They may be used by many goroutines.
type Metrics struct {
	registry *prometheus.Registry
	now      Now
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	gauges   map[int]*prometheus.GaugeVec
}

// New makes them.
func New(now Now) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), now: now, gauges: map[int]*prometheus.GaugeVec{},
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: Table[calls].Name, Help: Table[calls].Meaning}, Table[calls].Labels),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: Table[callSeconds].Name, Help: Table[callSeconds].Meaning,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20}}, Table[callSeconds].Labels)}
	m.registry.MustRegister(m.calls, m.seconds, m, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	for _, i := range []int{up, total, free, promised, volumes, ill} {
		m.gauges[i] = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: Table[i].Name, Help: Table[i].Meaning}, Table[i].Labels)
		m.registry.MustRegister(m.gauges[i])
	}
	return m
}

// Describe is of prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, i := range []int{callsNow, oldest, hanging} {
		out <- desc(i)
	}
}

// Collect is of prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	n, age := m.now.Busy()
	out <- prometheus.MustNewConstMetric(desc(callsNow), prometheus.GaugeValue, float64(n))
	out <- prometheus.MustNewConstMetric(desc(oldest), prometheus.GaugeValue, age.Seconds())
	for name, n := range m.now.Hanging() {
		out <- prometheus.MustNewConstMetric(desc(hanging), prometheus.GaugeValue, float64(n), name)
	}
}

func desc(i int) *prometheus.Desc {
	return prometheus.NewDesc(Table[i].Name, Table[i].Meaning, Table[i].Labels, nil)
}

// Unary counts a call.
func (m *Metrics) Unary(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	began := time.Now()
	reply, err := handle(ctx, request)
	method := path.Base(info.FullMethod)
	m.calls.WithLabelValues(method, status.Code(err).String()).Inc()
	m.seconds.WithLabelValues(method).Observe(time.Since(began).Seconds())
	return reply, err
}

// FileSystem says that a file system answered, and how full it is.
func (m *Metrics) FileSystem(name string, bytes, freeBytes int64) {
	m.gauges[up].WithLabelValues(name).Set(1)
	m.gauges[total].WithLabelValues(name).Set(float64(bytes))
	m.gauges[free].WithLabelValues(name).Set(float64(freeBytes))
}

// Volumes says how many volumes a file system has, and what they are promised together.
func (m *Metrics) Volumes(name string, n int, promisedBytes int64) {
	m.gauges[volumes].WithLabelValues(name).Set(float64(n))
	m.gauges[promised].WithLabelValues(name).Set(float64(promisedBytes))
}

// Down says that a file system does not answer. What was known of it stays.
func (m *Metrics) Down(name string) { m.gauges[up].WithLabelValues(name).Set(0) }

// Ill says how many volumes something is wrong with, by what.
func (m *Metrics) Ill(byReason map[string]int) {
	m.gauges[ill].Reset()
	for reason, n := range byReason {
		m.gauges[ill].WithLabelValues(reason).Set(float64(n))
	}
}

// Handler answers Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
