package checkpoint

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// fromTorch is what PyTorch itself has written (testdata/torch/make.py, with PyTorch of Debian 12 and 13): a directory of it as a disk.
func fromTorch(t testing.TB, version, dir string) *disk {
	t.Helper()
	unzipped := must.Get(gzip.NewReader(bytes.NewReader(must.Get(os.ReadFile(filepath.Join("testdata/torch", version+".tar.gz")))(t))))(t)
	d := &disk{nodes: map[string]*node{}}
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return d
		}
		must.Do(t, err)
		name, in := strings.CutPrefix(filepath.Clean(h.Name), dir+"/")
		if !in {
			continue
		}
		d.ids++
		d.nodes[name] = &node{dir: h.Typeflag == tar.TypeDir, id: d.ids, data: must.Get(io.ReadAll(r))(t), modified: h.ModTime.UnixNano(), changed: h.ModTime.UnixNano()}
	}
}

// judged are the sets of a disk, the newest first, and why one is not complete.
func judged(t testing.TB, d *disk, p Profile) (names []string, why map[string]string) {
	t.Helper()
	why = map[string]string{}
	for found, err := range Each(context.Background(), d.folder(), p) {
		must.Do(t, err)
		names = append(names, found.Name)
		if why[found.Name] = found.Why; !found.Complete && found.Why == "" {
			why[found.Name] = "not complete"
		}
	}
	return names, why
}

var torchDirs = []struct {
	version, dir string
	profile      Profile
	sets         string
}{
	{"1.13", "megatron", Megatron, "iter_0000200 iter_0000100"},
	{"1.13", "deepspeed", DeepSpeed, "global_step20 global_step10"},
	{"2.6", "dcp", DCP, "step_40 step_30 step_20 step_10"},
	{"2.6", "megatron", Megatron, "iter_0000200 iter_0000100"},
	{"2.6", "deepspeed", DeepSpeed, "global_step20 global_step10"},
}

// TestTorch: what PyTorch has written is complete, and is not without any one of its files, or with one that was cut off anywhere: also where one of its archives ends.
//
//safety:5/jobs files of PyTorch itself, each of which is removed or cut off
func TestTorch(t *testing.T) {
	for _, row := range torchDirs {
		t.Run(row.version+"/"+row.dir, func(t *testing.T) {
			names, why := judged(t, fromTorch(t, row.version, row.dir), row.profile)
			if strings.Join(names, " ") != row.sets || strings.Join(slices.Collect(values(names, why)), "") != "" {
				t.Fatalf("%q: %v", names, why)
			}
			for name, n := range fromTorch(t, row.version, row.dir).nodes {
				set, _, in := strings.Cut(name, "/")
				if n.dir || !in {
					continue
				}
				lost := fromTorch(t, row.version, row.dir)
				delete(lost.nodes, name)
				if _, why := judged(t, lost, row.profile); why[set] == "" {
					t.Errorf("complete without %s", name)
				}
				for _, from := range []int{0, len(n.data) / 2} {
					if blank := name == set+"/.metadata" || from == 0; !blank {
						continue // what is within an archive nobody sees without its checksums
					}
					zeros := fromTorch(t, row.version, row.dir)
					zeros.nodes[name].data = slices.Concat(n.data[:from], make([]byte, min(4096, len(n.data)-from)), n.data[min(from+4096, len(n.data)):])
					if _, why := judged(t, zeros, row.profile); why[set] == "" {
						t.Errorf("complete with zeros in %s from %d", name, from)
					}
				}
				for _, size := range cuts(n.data) {
					cut := fromTorch(t, row.version, row.dir)
					cut.nodes[name].data = n.data[:size]
					if _, why := judged(t, cut, row.profile); why[set] == "" {
						t.Errorf("complete with %d of %d bytes of %s", size, len(n.data), name)
					}
				}
			}
		})
	}
}

func values(names []string, why map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, name := range names {
			if !yield(why[name]) {
				return
			}
		}
	}
}

// cuts are where a file may end too early: by a byte, in its midst, and where an archive in it ends.
func cuts(data []byte) []int {
	at := []int{0, len(data) / 2, len(data) - 1}
	const end, long = "PK\x05\x06", 22
	for i := bytes.Index(data, []byte(end)); i >= 0 && i+long < len(data) && len(at) < 8; {
		at = append(at, i+long)
		next := bytes.Index(data[i+1:], []byte(end))
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return at
}

// TestTorchFiles: a file that was written alone is whole, and is not when it was cut off; the format from before PyTorch 1.6 has no end, so it is whole at least.
func TestTorchFiles(t *testing.T) {
	for _, row := range []struct{ version, dir, name string }{
		{"1.13", "plain", "zip.pt"}, {"2.6", "plain", "zip.pt"}, {"1.13", "plain", "legacy.pt"}, {"2.6", "plain", "legacy.pt"}, {"2.6", "hf", "checkpoint-5/model-00001-of-00002.safetensors"},
	} {
		d := fromTorch(t, row.version, row.dir)
		whole := func() bool {
			return shapeOf(row.name)(Entry{Name: row.name, Kind: File, Size: int64(len(d.nodes[row.name].data))}, d.peek)
		}
		if !whole() {
			t.Errorf("%v is not whole", row)
		}
		data := d.nodes[row.name].data
		for _, size := range cuts(data)[1:] {
			if d.nodes[row.name].data = data[:size]; whole() && row.name != "legacy.pt" {
				t.Errorf("%d of %d bytes of %v are whole", size, len(data), row)
			}
		}
	}
}

// FuzzShards: whatever is in .metadata, nothing of it is run, and little is kept.
//
//safety:5/jobs with TestHostile
func FuzzShards(f *testing.F) {
	for _, set := range []string{"step_10", "step_30"} {
		f.Add(fromTorch(f, "2.6", "dcp").nodes[set+"/.metadata"].data)
	}
	f.Add([]byte(namesPickled("__0_0.distcp")))
	f.Add([]byte("\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff."))
	f.Fuzz(func(t *testing.T, text []byte) {
		names, _ := shardsIn(Entry{Name: "s/.metadata", Size: int64(len(text))}, func(_ string, off int64, p []byte) (int, error) {
			return bytes.NewReader(text).ReadAt(p, off)
		})
		kept := 0
		for name := range names {
			kept += len(name)
		}
		if kept > len(text) {
			t.Errorf("%d bytes of names in %d", kept, len(text))
		}
	})
}

// TestTorchSays: numbers are read from what torch.save has pickled.
func TestTorchSays(t *testing.T) {
	for _, version := range []string{"1.13", "2.6"} {
		for name, want := range map[string]struct {
			names []string
			says  string
		}{
			"megatron/iter_0000100/mp_rank_01/model_optim_rng.pt":               {megatronNames, "map[expert_model_parallel_size:1 pipeline_model_parallel_size:1 tensor_model_parallel_size:2 use_distributed_optimizer:0]"},
			"deepspeed/global_step10/mp_rank_00_model_states.pt":                {deepSpeedNames, "map[dp_world_size:2 mp_world_size:1 stage:1]"},
			"deepspeed/global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt": {deepSpeedNames, "map[stage:1]"},
		} {
			dir, file, _ := strings.Cut(name, "/")
			d := fromTorch(t, version, dir)
			e := Entry{Name: file, Kind: File, Size: int64(len(d.nodes[file].data))}
			if got := fmt.Sprint(stated(e, d.peek, want.names)); got != want.says {
				t.Errorf("%s, %s: %s", version, name, got)
			}
		}
	}
}
