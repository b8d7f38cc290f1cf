package monitoring

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"

	"datamove.dev/csi/metrics"
)

// volumesScraped is the text of a scrape of a CSI driver of which everything has happened once.
func volumesScraped(t *testing.T) string {
	t.Helper()
	m := metrics.New(metrics.Now{
		Busy:    func() (int, time.Duration) { return 1, time.Minute },
		Hanging: func() map[string]int { return map[string]int{"lustre": 2} },
	})
	m.FileSystem("lustre", 1000, 100)
	m.Volumes("lustre", 1, 500)
	m.Down("lustre")
	m.Ill(map[string]int{"DirectoryReplaced": 1, "QuotaUnknown": 1, "FileSystemDoesNotAnswer": 1})
	if _, err := m.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Node/NodePublishVolume"}, func(context.Context, any) (any, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}

func TestScrapeOfVolumesIsClean(t *testing.T) {
	promtool(t, volumesScraped(t), "check", "metrics")
}
