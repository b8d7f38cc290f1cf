package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// namesPickled is the storage data of a distributed checkpoint as torch.save pickles them (protocol 2): a dictionary of objects with the names of shards in
// BINUNICODE, each written out once and then taken from the memo.
func namesPickled(shards ...string) string {
	var b bytes.Buffer
	b.WriteString("\x80\x02ctorch.distributed.checkpoint.metadata\nMetadata\nq\x00)\x81q\x01}q\x02")
	for i, name := range shards {
		for range 3 {
			fmt.Fprintf(&b, "X%s%s", binary.LittleEndian.AppendUint32(nil, uint32(len("model.layer"))), "model.layer")
			b.WriteString("X")
			b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(name))))
			b.WriteString(name)
			fmt.Fprintf(&b, "q%c", byte(3+i))
		}
	}
	b.WriteString("ub.")
	return b.String()
}

// TestNamedFiles: what a file of a checkpoint names has to be there, whoever wrote it: a set that was saved to the disks of several nodes is complete
// on none of them, whatever marks it has.
//
//safety:5/jobs a checkpoint of which some shards are on another node, or lost: .metadata, an index, a tracker in it name them
func TestNamedFiles(t *testing.T) {
	four := namesPickled("__0_0.distcp", "__1_0.distcp", "__2_0.distcp", "__3_0.distcp")
	shards := func(dir string, n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("%s/__%d_0.distcp", dir, i))
		}
		return all
	}
	whole := string(safetensors("w"))
	for _, row := range []struct {
		what string
		p    Profile
		in   []string
		why  string // of the set; "" is complete
	}{
		{"all four", DCP, append(shards("step_100", 4), "step_100/.metadata="+four), ""},
		{"two of four", DCP, append(shards("step_100", 2), "step_100/.metadata="+four), "__2_0.distcp is not there, which .metadata names"},
		{"none of four", DCP, []string{"step_100/.metadata=" + four, "step_100/x"}, "__0_0.distcp is not there, which .metadata names"},
		{"two of four, NeMo", NeMo, append(shards("step_100/weights", 2), "step_100/weights/.metadata="+four), "__2_0.distcp is not there, which weights/.metadata names"},
		{"two of four, Megatron", Megatron, append(shards("iter_0000100", 2), "iter_0000100/.metadata="+four, "iter_0000100/common.pt", "iter_0000100/metadata.json={}", "latest_checkpointed_iteration.txt=100"), "__2_0.distcp is not there, which .metadata names"},
		{"names of no shards", DCP, []string{"step_100/a", "step_100/.metadata=other"}, ""},
		{"an index, all there", HF, []string{"checkpoint-5/model-00001-of-00001.safetensors=" + whole, `checkpoint-5/model.safetensors.index.json={"weight_map": {"a": "model-00001-of-00001.safetensors"}}`, "checkpoint-5/trainer_state.json={}"}, ""},
		{"an index of absent shards", HF, []string{"checkpoint-5/model.safetensors=" + whole, `checkpoint-5/model.safetensors.index.json={"weight_map": {"a": "weights-a.safetensors", "b": "model.safetensors"}}`, "checkpoint-5/trainer_state.json={}"}, "weights-a.safetensors is not there, which model.safetensors.index.json names"},
		{"no weights at all", HF, []string{"checkpoint-5/optimizer.pt=x", "checkpoint-5/training_args.bin=x", "checkpoint-5/trainer_state.json={}"}, "no weights are in it"},
		{"a norm that is no number", HF, []string{"checkpoint-5/model.safetensors=" + whole, `checkpoint-5/trainer_state.json={"log_history": [{"grad_norm": NaN, "loss": -Infinity}], "best_metric": Infinity}`}, ""},
		{"a text that is cut off behind one", HF, []string{"checkpoint-5/model.safetensors=" + whole, `checkpoint-5/trainer_state.json={"log_history": [{"grad_norm": NaN`}, "trainer_state.json is not whole"},
		{"an evaluation that is being written", DCP, append(shards("step_100", 4), "step_100/.metadata="+four, `step_100/eval.json later={"loss":`, "step_100/eval.log later empty"), ""},
		{"an evaluation that is being written", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt", `iter_0000100/eval.json later={"loss":`, "iter_0000100/eval.log later empty", "latest_checkpointed_iteration.txt=100"}, ""},
		{"an evaluation that is being written", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt", `global_step10/eval.json later={"loss":`, "global_step10/eval.log later empty", "latest=global_step10"}, ""},
		{"a file of a rank that is empty, and late", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt", "global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt later empty", "latest=global_step10"}, "zero_pp_rank_0_mp_rank_00_optim_states.pt is empty"},
		{"one from before", DCP, append(shards("step_100", 4), `step_100/eval.json={"loss":`, "step_100/.metadata="+four), "eval.json is not whole"},
		{"weights of an adapter", HF, []string{"checkpoint-5/adapter_model.safetensors=" + whole, "checkpoint-5/trainer_state.json={}"}, ""},
		{"weights of FSDP", HF, append(shards("checkpoint-5/pytorch_model_fsdp_0", 1), "checkpoint-5/pytorch_model_fsdp_0/.metadata="+namesPickled("__0_0.distcp"), "checkpoint-5/trainer_state.json={}"), ""},
		{"DeepSpeed in it, its step absent", HF, []string{"checkpoint-5/model.safetensors=" + whole, "checkpoint-5/latest=global_step200", "checkpoint-5/trainer_state.json={}"}, "global_step200 is not there, which latest names"},
		{"DeepSpeed in it", HF, []string{"checkpoint-5/global_step200/mp_rank_00_model_states.pt", "checkpoint-5/latest=global_step200\n", "checkpoint-5/trainer_state.json={}"}, ""},
		{"Orbax begun", Orbax, []string{"100/a", `100/_CHECKPOINT_METADATA={"init_timestamp_nsecs": 1, "item_handlers": {}}`}, "_CHECKPOINT_METADATA does not say that it was committed"},
		{"Orbax committed", Orbax, []string{"100/a", `100/_CHECKPOINT_METADATA={"commit_timestamp_nsecs": 2}`}, ""},
		{"Orbax without the file that its neighbour has", Orbax, []string{"90/a", "90/_METADATA={}", "90/commit_success.txt=x", "100/a", "100/_METADATA={}"}, "there is no commit_success.txt in it, and others have one"},
		{"Orbax where nobody has it", Orbax, []string{"90/a", "90/_METADATA={}", "100/a", "100/_METADATA={}"}, ""},
	} {
		dir := made(t, row.in...)
		folder := OnDisk(opened(t, dir), Limits{})
		for found, err := range Each(context.Background(), folder, row.p) {
			must.Do(t, err)
			if why := strings.TrimPrefix(found.Why, "./"); why != row.why || found.Complete != (row.why == "") {
				t.Errorf("%s: %s is complete %v: %q, want %q", row.what, found.Name, found.Complete, found.Why, row.why)
			}
			break // the newest
		}
	}
}

// TestShardsAcrossParts: a name that lies across two parts of a large .metadata is seen, and no more is read at once than a part.
func TestShardsAcrossParts(t *testing.T) {
	for _, before := range []int{metadataPart - 20, metadataPart - 5, metadataPart, 2*metadataPart - 12} {
		text := strings.Repeat("x", before) + "__17_3.distcp" + strings.Repeat("y", metadataPart/2) + "__18_0.distcp"
		most := 0
		peek := func(_ string, off int64, p []byte) (int, error) {
			most = max(most, len(p))
			n, err := strings.NewReader(text).ReadAt(p, off)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
		got, _ := shardsIn(Entry{Name: "s/.metadata", Size: int64(len(text))}, peek)
		if strings.Join(slices.Sorted(maps.Keys(got)), " ") != "__17_3.distcp __18_0.distcp" || most > metadataPart+shardNameMax {
			t.Errorf("%d: %v, %d bytes at once", before, got, most)
		}
	}
}

// TestStated: a number is found behind its name wherever the two lie, and no more of a file is read than what is pickled first.
func TestStated(t *testing.T) {
	for _, before := range []int{0, statedPart - 20, statedPart - 5, statedPart, 2*statedPart - 30} {
		text := []byte(strings.Repeat("x", before))
		text = append(text, torchSays("w", "dp_world_size", 300, "mp_world_size", 2)...)
		text = append(text[:before], text[before+4:]...) // no archive begins within
		text = append(text, make([]byte, 4*statedPart)...)
		furthest := int64(0)
		peek := func(_ string, off int64, p []byte) (int, error) {
			furthest = max(furthest, off+int64(len(p)))
			return strings.NewReader(string(text)).ReadAt(p, off)
		}
		says := stated(Entry{Name: "s/x", Size: int64(len(text))}, peek, deepSpeedNames)
		if says["dp_world_size"] != 300 || says["mp_world_size"] != 2 || furthest > int64(before)+2*statedPart {
			t.Errorf("%d: %v, read to %d", before, says, furthest)
		}
	}
}

// FuzzStated: whatever is in a file of a rank, it says numbers or nothing, and asks for no more ranks than are counted.
//
//safety:5/jobs with TestHostile
func FuzzStated(f *testing.F) {
	f.Add(torchSays("w", "dp_world_size", 300, "mp_world_size", 2, "stage", 3))
	f.Add(torchSays("w", "tensor_model_parallel_size", 60000, "pipeline_model_parallel_size", 60000, "use_distributed_optimizer", 1))
	f.Add([]byte("X\x0d\x00\x00\x00dp_world_sizeq\x01J"))
	f.Fuzz(func(t *testing.T, text []byte) {
		inside := []Entry{{Name: "s", Kind: Dir}}
		for _, name := range []string{"mp_rank_00/model_optim_rng.pt", "mp_rank_00_000_000/model_optim_rng.pt", "mp_rank_00_model_states.pt", "zero_pp_rank_7_mp_rank_00_optim_states.pt"} {
			inside = append(inside, Entry{Name: "s/" + name, Kind: File, Size: int64(len(text))})
		}
		for _, of := range []func([]Entry) []ranks{megatronRanks, deepSpeedRanks} {
			for _, r := range of(inside) {
				r.tell(inside, func(_ string, off int64, p []byte) (int, error) {
					return strings.NewReader(string(text)).ReadAt(p, off)
				})
				_ = r.lacks()
			}
		}
	})
}

// TestLookIsNoUse: who looks for checkpoints, and into their files, does not make them look as if a job had used them.
func TestLookIsNoUse(t *testing.T) {
	dir := made(t, append([]string{"step_100/.metadata=" + namesPickled("__0_0.distcp")}, "step_100/__0_0.distcp", "latest=step_100")...)
	names := []string{"step_100", "step_100/.metadata", "step_100/__0_0.distcp", "latest"}
	long := time.Now().Add(-72 * time.Hour) // relatime moves it at the next use
	accessed := func(name string) time.Time {
		t.Helper()
		st := must.Get(os.Stat(filepath.Join(dir, name)))(t).Sys().(*syscall.Stat_t)
		return time.Unix(st.Atim.Unix())
	}
	for _, name := range names {
		at := filepath.Join(dir, name)
		must.Do(t, os.Chtimes(at, long, must.Get(os.Stat(at))(t).ModTime()))
	}
	for found, err := range Each(context.Background(), OnDisk(opened(t, dir), Limits{}), DCP) {
		if err != nil || !found.Complete {
			t.Errorf("%+v, %v", found.Set, err)
		}
	}
	for _, name := range names {
		if at := accessed(name); at.Sub(long).Abs() > time.Second {
			t.Errorf("%s was accessed at %v", name, at)
		}
	}
	if _, err := os.ReadFile(filepath.Join(dir, "step_100/.metadata")); err != nil || accessed("step_100/.metadata").Sub(long) < time.Hour {
		t.Log("mounted with noatime: this has shown nothing") // or there is an error
	}
}
