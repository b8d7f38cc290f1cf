package telemetry

import (
	"net/http/httptest"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	dto "github.com/prometheus/client_model/go"

	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape asks for the metrics as Prometheus does.
func scrape(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("scrape: %d %s", answer.Code, answer.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families := must.Get(parser.TextToMetricFamilies(answer.Body))(t)
	return families
}

// value is that of the series of a scrape with these labels; of a histogram, how many
// were measured.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) (float64, bool) {
	t.Helper()
	family := families[name]
	if family == nil {
		return 0, false
	}
next:
	for _, metric := range family.Metric {
		has := map[string]string{}
		for _, l := range metric.Label {
			has[l.GetName()] = l.GetValue()
		}
		for i := 0; i < len(labels); i += 2 {
			if has[labels[i]] != labels[i+1] {
				continue next
			}
		}
		switch family.GetType() {
		case dto.MetricType_COUNTER:
			return metric.GetCounter().GetValue(), true
		case dto.MetricType_HISTOGRAM:
			return float64(metric.GetHistogram().GetSampleCount()), true
		}
		return metric.GetGauge().GetValue(), true
	}
	return 0, false
}

// want compares one series.
func want(t *testing.T, families map[string]*dto.MetricFamily, v float64, name string, labels ...string) {
	t.Helper()
	if got, ok := value(t, families, name, labels...); !ok || got != v {
		t.Errorf("%s%q is %v (%v), want %v", name, labels, got, ok, v)
	}
}
