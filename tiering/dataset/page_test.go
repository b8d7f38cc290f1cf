package dataset_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset"
)

// TestWatermarksOnPage: a tier is shown as full where replicas begin to be evicted, and as one that will be where that ends.
func TestWatermarksOnPage(t *testing.T) {
	short := func(used int64) int64 {
		line := &pb.Tier{Name: "hot", Level: "hot", Location: "/hot", TotalBytes: 100, FreeBytes: 100 - used}
		return dataset.Look(dataset.Facts{Tiers: []*pb.Tier{line}}).Evict(line, dataset.Watermarks{}).Short
	}
	high := int64(0)
	for high < 100 && short(high+1) == 0 {
		high++
	}
	want := fmt.Sprintf("low=%d high=%d", high+1-short(high+1), high)
	var got []string
	page := must.Get(os.ReadFile("../../mover/webui/page/tiers.js"))(t)
	for _, m := range regexp.MustCompile(`(?m)^export const (low|high) = (\d+)$`).FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1]+"="+m[2])
	}
	if strings.Join(got, " ") != want {
		t.Errorf("the page says %s, and eviction is at %s", got, want)
	}
}
