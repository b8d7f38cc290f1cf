package daemon

import (
	"fmt"
	"testing"

	"datamove.dev/lustre"
)

// TestPartsOf: OSTs count by themselves and in their pools; who does not answer is not counted.
func TestPartsOf(t *testing.T) {
	got := ""
	for _, p := range partsOf([]lustre.Target{
		{Kind: lustre.OST, Index: 0, Pools: []string{"flash"}, TotalBytes: 100, FreeBytes: 10, TotalFiles: 7},
		{Kind: lustre.MDT, Index: 0, TotalBytes: 5},
		{Kind: lustre.OST, Index: 1, Pools: []string{"flash", "all"}, TotalBytes: 100, FreeBytes: 30},
		{Kind: lustre.OST, Index: 2, Pools: []string{"flash"}, Inactive: "it is away"},
		{Kind: lustre.InPool, Name: "system", TotalBytes: 9, FreeBytes: 1},
	}) {
		got += fmt.Sprintf("%s %s %d/%d %d, ", p.GetKind(), p.GetName(), p.GetFreeBytes(), p.GetTotalBytes(), p.GetTotalFiles())
	}
	if want := "ost 0 10/100 7, pool flash 40/200 7, ost 1 30/100 0, pool all 30/100 0, pool system 1/9 0, "; got != want {
		t.Errorf("%s", got)
	}
}
