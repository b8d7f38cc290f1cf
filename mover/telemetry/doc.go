// Package telemetry is how the service is seen from outside: metrics for
// Prometheus, traces for OpenTelemetry, and the log. It is the one home of both
// libraries; no other package imports them.
//
// [Metrics] counts what happens, by methods that are named after it, and asks for
// what is, by a hook for each scrape that fills a [Sample]. [Table] lists every
// metric: its text is the HELP of a scrape, the table in deploy/monitoring, and what
// the dashboards and alerts there are tested with. [Tracing] sends spans, [Span]
// makes one, [Inject] and [Extract] carry it where gRPC does not. [Logger] writes
// lines with the ids of the span; a [Secret] never shows in them.
//
// Every label has a bound: words of ours, or names of the configuration. What is
// none of them is "other", so that no caller, however hostile, makes more series or
// puts a name into one. Tasks, users and paths are in no metric.
//
// Everything may be called from many goroutines, and on a nil *Metrics, which counts
// nothing. Nothing is kept: counters begin at zero after a crash, as Prometheus
// expects. The service decides which address answers scrapes, and which callers may ask.
//
// TestEveryRowIsFed shows that the table is true, TestNoLabelIsFree its bounds, and
// TestATraceIsOne a trace through gRPC and a worker.
package telemetry
