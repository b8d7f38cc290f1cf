// Package monitoring holds deploy/monitoring to the metrics that there are: promtool
// checks the rules, fires every alert and keeps it quiet, and lints a scrape; dashboards
// and alerts use only names, labels and words that a scrape has, and no panel stays
// empty; the documentation has every metric, and the runbook every alert.
package monitoring
