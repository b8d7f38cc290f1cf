package fsclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"datamove.dev/csi/fsworker"
	"datamove.dev/csi/volume"
	"datamove.dev/csi/volumestore"
	"datamove.dev/mover"
)

// limit is that of a call here.
const limit = 2 * time.Second

// TestMain is the hand of a file system that can be looked at at once, lists its volumes for longer than a call may take, and is
// silent about each of them.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "hand" {
		if err := fsworker.Serve(context.Background(), map[string]fsworker.Method{
			"look": fsworker.Typed(func(_ context.Context, s volumestore.Spec) (volumestore.Stats, error) {
				if s.Name == "silent" {
					select {}
				}
				return volumestore.Stats{TotalBytes: 7}, nil
			}),
			"list": fsworker.Typed(func(context.Context, listing) (listed, error) {
				time.Sleep(limit + limit/2)
				return listed{Records: make([]volumestore.Record, 5)}, nil
			}),
			"find": fsworker.Typed(func(context.Context, of) (volumestore.Record, error) { select {} }),
		}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestScan: a list of many volumes may take longer than a call, and is not lost when a call beside it hangs; a file system that does not
// answer is known after the limit of a call all the same.
//
//safety:8 with csi TestWhoCounts
func TestScan(t *testing.T) {
	f := &Files{Pool: &fsworker.Pool{}, Limit: limit}
	t.Cleanup(f.Pool.Close)
	s := volumestore.Spec{Name: "lab"}
	beside := make(chan error, 1)
	go func() {
		_, err := f.Find(t.Context(), s, volume.ID{})
		beside <- err
	}()
	if records, _, err := f.List(t.Context(), s, volume.Project); err != nil || len(records) != 5 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if err := <-beside; !errors.Is(err, mover.ErrTimeout) {
		t.Errorf("beside it: %v", err)
	}
	began := time.Now()
	if _, _, err := f.List(t.Context(), volumestore.Spec{Name: "silent"}, volume.Project); !errors.Is(err, mover.ErrTimeout) || time.Since(began) > longLimits*limit/2 {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
