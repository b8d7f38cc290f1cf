package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// made makes a directory from lines: "name" is a file with a byte in it, "name empty" one without, "name/" a directory, "name=text" one with that text, as "name:=text",
// "name -> to" a link. Each file is a second younger than the one before.
func made(t testing.TB, lines ...string) string {
	t.Helper()
	dir, when := t.TempDir(), time.Now().Add(-time.Hour)
	for _, line := range lines {
		name, text := line, "x"
		name, to, link := strings.Cut(name, " -> ")
		if n, v, ok := strings.Cut(name, ":="); ok {
			name, text = n, v
		} else if n, v, ok := strings.Cut(name, "="); ok && !strings.HasSuffix(n, "step") && !strings.HasSuffix(n, "epoch") {
			name, text = n, v
		}
		name, empty := strings.CutSuffix(name, " empty")
		name, later := strings.CutSuffix(name, " later")
		at := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(at), 0o755))
		switch {
		case link:
			must.Do(t, os.Symlink(to, at))
			continue
		case strings.HasSuffix(name, "/"):
			must.Do(t, os.MkdirAll(at, 0o755))
			continue
		case empty:
			text = ""
		}
		if when = when.Add(time.Second); later {
			when = when.Add(time.Minute)
		}
		must.Do(t, os.WriteFile(at, []byte(text), 0o644))
		must.Do(t, os.Chtimes(at, when, when))
	}
	return dir
}

func opened(t testing.TB, dir string) *os.File {
	t.Helper()
	f := must.Get(os.Open(dir))(t)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func found(t testing.TB, p Profile, dir string) View {
	t.Helper()
	tree := must.Get(Read(context.Background(), opened(t, dir), Limits{}))(t)
	return Find(p, tree)
}

// printed is a view in few words: "+set" is complete, with its mark behind "@"; "-set: why" is not; "tracker>set"; the rest.
func printed(v View) string {
	var all []string
	for _, s := range v.Sets {
		switch {
		case !s.Complete:
			all = append(all, "-"+s.Name+": "+s.Why)
		case s.Mark != "":
			all = append(all, "+"+s.Name+"@"+s.Mark)
		default:
			all = append(all, "+"+s.Name)
		}
	}
	for _, t := range v.Trackers {
		all = append(all, t.Name+">"+t.Names)
	}
	return strings.Join(slices.Concat(all, v.Rest), "; ")
}

// TestFind has the shapes that frameworks leave, whole and torn.
//
//safety:5/jobs with TestHostile
func TestFind(t *testing.T) {
	for _, row := range []struct {
		what    string
		profile Profile
		lines   []string
		want    string
	}{
		{"nothing", DCP, nil, ""},

		{"a mark", Plain, []string{"a/model", "a/_SUCCESS empty"}, "+a@_SUCCESS"},
		{"no mark", Plain, []string{"a/model"}, "-a: no mark is in it: datamove-commit.json, _SUCCESS, .complete, commit_success.txt"},
		{"a mark that is a directory", Plain, []string{"a/model", "a/_SUCCESS/"}, "-a: no mark is in it: datamove-commit.json, _SUCCESS, .complete, commit_success.txt"},
		{"written again below its mark", Plain, []string{"a/other", "a/_SUCCESS", "a/model later"}, "-a: model is younger than _SUCCESS: it is being written again"},
		{"a mark alone, empty, is a checkpoint of nothing", Plain, []string{"a/_SUCCESS empty"}, "+a@_SUCCESS"},
		{"an empty shard", Plain, []string{"a/model empty", "a/_SUCCESS"}, "-a: model is empty"},
		{"by step", Plain, []string{"step_9/_SUCCESS", "step_10/_SUCCESS", "note"}, "+step_9@_SUCCESS; +step_10@_SUCCESS; note"},

		{"of one rank", DCP, []string{"step_1/__0_0.distcp", "step_1/.metadata"}, "+step_1@.metadata"},
		{"its shards only", DCP, []string{"step_1/__0_0.distcp", "step_1/__1_0.distcp"}, "-step_1: there is no .metadata in it"},
		{"metadata not renamed yet", DCP, []string{"step_1/__0_0.distcp", "step_1/.metadata.tmp"}, "-step_1: there is no .metadata in it"},
		{"saved over, with the old metadata", DCP, []string{"last/__0_0.distcp", "last/.metadata", "last/__1_0.distcp later"}, "-last: __1_0.distcp is younger than .metadata: it is being written again"},
		{"saved over, before the rename", DCP, []string{"last/__0_0.distcp", "last/.metadata", "last/.metadata.tmp"}, "-last: .metadata.tmp is a temporary name"},
		{"what is none", DCP, []string{"logs/events"}, "logs"},
		{"committed by hand", DCP, []string{"a/__0_0.distcp", "a/datamove-commit.json={}"}, "+a@datamove-commit.json"},
		{"a link to the newest", DCP, []string{"step_1/.metadata", "last -> step_1"}, "+step_1@.metadata; last>step_1"},
		{"a link elsewhere", DCP, []string{"step_1/.metadata", "last -> /etc", "up -> ../step_1"}, "+step_1@.metadata; last; up"},
		{"what came back as incomplete", DCP, []string{"step_1.incomplete-7/.metadata"}, "step_1.incomplete-7"},

		{"tracked", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt=100\n"},
			"+iter_0000100; latest_checkpointed_iteration.txt>iter_0000100"},
		{"beyond the tracker", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt", "iter_0000200/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt=100"},
			"+iter_0000100; -iter_0000200: latest_checkpointed_iteration.txt does not say so; latest_checkpointed_iteration.txt>iter_0000100"},
		{"distributed", Megatron, []string{"iter_0000100/__0_0.distcp", "iter_0000100/common.pt", "iter_0000100/metadata.json", "iter_0000100/.metadata", "latest_checkpointed_iteration.txt=100"},
			"+iter_0000100@.metadata; latest_checkpointed_iteration.txt>iter_0000100"},
		{"distributed, torn", Megatron, []string{"iter_0000100/__0_0.distcp", "iter_0000100/common.pt", "iter_0000100/metadata.json", "latest_checkpointed_iteration.txt=100"},
			"-iter_0000100: there is no .metadata in it; latest_checkpointed_iteration.txt>iter_0000100"},
		{"of a release", Megatron, []string{"release/mp_rank_00/model", "latest_checkpointed_iteration.txt=release"}, "+release; latest_checkpointed_iteration.txt>release"},
		{"without a tracker", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt", "non_persistent/x"}, "-iter_0000100: latest_checkpointed_iteration.txt does not say so; non_persistent"},
		{"a shard without bytes", Megatron, []string{"iter_0000100/mp_rank_00/model empty", "latest_checkpointed_iteration.txt=100"},
			"-iter_0000100: mp_rank_00/model is empty; latest_checkpointed_iteration.txt>iter_0000100"},

		{"the newest, and the one before", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt", "global_step20/mp_rank_00_model_states.pt", "global_step30/mp_rank_00_model_states.pt", "latest=global_step20", "zero_to_fp32.py"},
			"+global_step10; +global_step20; -global_step30: latest does not say so; latest>global_step20; zero_to_fp32.py"},
		{"tags without steps", DeepSpeed, []string{"best/mp_rank_00_model_states.pt", "old/zero_pp_rank_0_mp_rank_00_optim_states.pt", "latest=best\n"}, "+best; -old: latest does not say so; latest>best"},
		{"latest leads away", DeepSpeed, []string{"a/mp_rank_00_model_states.pt", "latest=../a"}, "-a: latest does not say so; latest>"},

		{"renamed", Orbax, []string{"100/_CHECKPOINT_METADATA", "100/default/manifest.ocdbt"}, "+100@_CHECKPOINT_METADATA"},
		{"not renamed", Orbax, []string{"100.orbax-checkpoint-tmp-1700/default/x"}, "-100.orbax-checkpoint-tmp-1700: its name is a temporary one"},
		{"an item of it not renamed", Orbax, []string{"100/_CHECKPOINT_METADATA", "100/default.orbax-checkpoint-tmp-1/x"}, "-100: default.orbax-checkpoint-tmp-1/x is a temporary name"},
		{"committed", Orbax, []string{"step_100/default/d", "step_100/commit_success.txt"}, "+step_100@commit_success.txt"},

		{"of the Trainer", HF, []string{"checkpoint-500/model.safetensors", "checkpoint-500/trainer_state.json={}"}, "+checkpoint-500@trainer_state.json"},
		{"a shard is missing", HF, []string{"checkpoint-500/model-00001-of-00002.safetensors", "checkpoint-500/trainer_state.json={}"}, "-checkpoint-500: model-*-of-00002.safetensors: some are missing"},
		{"all shards", HF, []string{"checkpoint-500/model-00001-of-00002.safetensors", "checkpoint-500/model-00002-of-00002.safetensors", "checkpoint-500/model.safetensors.index.json={}", "checkpoint-500/trainer_state.json={}"}, "+checkpoint-500@trainer_state.json"},
		{"all shards without their index", HF, []string{"checkpoint-500/model-00001-of-00002.safetensors", "checkpoint-500/model-00002-of-00002.safetensors", "checkpoint-500/trainer_state.json={}"}, "-checkpoint-500: there is no model.safetensors.index.json in it, without which its shards are not loaded"},
		{"shards of torch without their index", HF, []string{"checkpoint-500/pytorch_model-00001-of-00001.bin", "checkpoint-500/trainer_state.json={}"}, "-checkpoint-500: there is no pytorch_model.bin.index.json in it, without which its shards are not loaded"},
		{"shards of torch", HF, []string{"checkpoint-500/pytorch_model-00001-of-00001.bin", "checkpoint-500/pytorch_model.bin.index.json={}", "checkpoint-500/trainer_state.json={}"}, "+checkpoint-500@trainer_state.json"},
		{"before its rename", HF, []string{"tmp-checkpoint-500/trainer_state.json={}", "runs/events"}, "-tmp-checkpoint-500: its name is a temporary one; runs"},

		{"finished", NeMo, []string{"m--step=100/weights/.metadata", "m--step=100/weights/__0_0.distcp"}, "+m--step=100@weights/.metadata"},
		{"unfinished", NeMo, []string{"m/weights/.metadata", "m-unfinished empty"}, "-m: it is marked as unfinished"},
		{"files", NeMo, []string{"m.ckpt", "m-last.ckpt", "n.ckpt", "n-unfinished empty"}, "+m.ckpt; +m-last.ckpt; -n.ckpt: it is marked as unfinished"},
		{"a directory of who knows whom", NeMo, []string{"m.ckpt", "wandb/run/files"}, "+m.ckpt; -wandb: nothing in it says that it is complete"},
		{"DeepSpeed by Lightning", NeMo, []string{"epoch=1.ckpt/checkpoint/mp_rank_00_model_states.pt", "epoch=1.ckpt/latest:=checkpoint", "epoch=2.ckpt/checkpoint/mp_rank_00_model_states.pt"},
			"+epoch=1.ckpt@latest; -epoch=2.ckpt: nothing in it says that it is complete"},
		{"of several frameworks", Mixed, []string{"step_1000/model", "step_1000/_SUCCESS empty", "best.ckpt", "step_2000/model", "wandb/run", "checkpoint-5/model.safetensors", "iter_0000100/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt=100",
			"dcp/__0_0.distcp", "dcp/.metadata", "m/weights/__0_0.distcp", "m-unfinished empty", "global_step5/mp_rank_00_model_states.pt", "latest=global_step5"},
			"+step_1000@_SUCCESS; +best.ckpt; -step_2000: no mark is in it: datamove-commit.json, _SUCCESS, .complete, commit_success.txt; -wandb: no mark is in it: datamove-commit.json, _SUCCESS, .complete, commit_success.txt; " +
				"-checkpoint-5: there is no trainer_state.json in it; +iter_0000100; +dcp@.metadata; -m: it is marked as unfinished; +global_step5; latest>global_step5; latest_checkpointed_iteration.txt>iter_0000100"},
		{"by a link", NeMo, []string{"epoch_0_step_9/model/.metadata", "LATEST -> epoch_0_step_9"}, "+epoch_0_step_9@model/.metadata; LATEST>epoch_0_step_9"},
	} {
		t.Run(string(row.profile)+", "+row.what, func(t *testing.T) {
			if got := printed(found(t, row.profile, made(t, row.lines...))); got != row.want {
				t.Errorf("%s\nwant %s", got, row.want)
			}
		})
	}
}

// TestYounger: what the format of a mark names may be a little younger than the mark, as clocks of nodes differ; other files may come at any time; and a directory that was
// changed since then has lost something, unless what came explains it.
func TestYounger(t *testing.T) {
	for _, row := range []struct {
		what    string
		profile Profile
		mark    string
		file    string
		at, dir int64 // seconds after the mark
		why     string
	}{
		{"a shard of another node", DCP, ".metadata", "__1_0.distcp", 5, 0, ""},
		{"a shard of the next save", DCP, ".metadata", "__1_0.distcp", 11, 0, "__1_0.distcp is younger than .metadata" + rewritten},
		{"a shard of another node", NeMo, "weights/.metadata", "weights/__1_0.distcp", 5, 0, ""},
		{"a shard of the next save", NeMo, "weights/.metadata", "weights/__1_0.distcp", 11, 0, "weights/__1_0.distcp is younger than weights/.metadata" + rewritten},
		{"what evaluates it writes into it", DCP, ".metadata", "eval.json", 3000, 3000, ""},
		{"what evaluates it writes below it", NeMo, "weights/.metadata", "results/eval.json", 3000, 0, ""},
		{"what evaluates it writes into it", HF, "trainer_state.json", "eval_results.json", 3000, 3000, ""},
		{"what evaluates it writes into it", Orbax, "_METADATA", "eval.json", 3000, 3000, ""},
		{"something has gone", Orbax, "_METADATA", "default/x", -10, 3000, "something was added or removed after _METADATA"},
		{"something has gone", DCP, ".metadata", "eval.json", 3000, 3100, "something was added or removed after .metadata"},
		{"something has gone", HF, "trainer_state.json", "eval_results.json", -10, 3100, "something was added or removed after trainer_state.json"},
		{"who says by a mark alone names no files", Plain, "_SUCCESS", "eval.json", 3000, 0, "eval.json is younger than _SUCCESS" + rewritten},
		{"a rank of Megatron, on another node", Megatron, "../latest_checkpointed_iteration.txt", "mp_rank_00/model_optim_rng.pt", 5, 0, ""},
		{"a rank of Megatron, of the next save", Megatron, "../latest_checkpointed_iteration.txt", "mp_rank_00/model_optim_rng.pt", 11, 0, "mp_rank_00/model_optim_rng.pt is younger than latest_checkpointed_iteration.txt" + rewritten},
		{"what evaluates it writes into it", Megatron, "../latest_checkpointed_iteration.txt", "eval.json", 3000, 3000, ""},
	} {
		const set, mark = "iter_0000100", 1000
		at := func(s int64) int64 { return (mark + s) * 1e9 }
		entry := func(name string, when int64) Entry {
			return Entry{Name: name, Kind: File, Size: 1, Modified: at(when), Changed: at(when)}
		}
		name := cmp.Or(map[Profile]string{HF: "checkpoint-100", Orbax: "100"}[row.profile], set)
		tree := Tree{Entries: []Entry{{Name: name, Kind: Dir, Modified: at(row.dir), Changed: at(row.dir)}, entry(name+"/"+row.file, row.at), entry(name+"/model.safetensors", -20)}, Texts: map[string]string{}}
		if own, beside := strings.CutPrefix(row.mark, "../"); beside {
			tree.Entries, tree.Texts[own] = append(tree.Entries, entry(own, 0)), "100"
		} else {
			tree.Entries = append(tree.Entries, entry(name+"/"+row.mark, 0))
		}
		slices.SortFunc(tree.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
		if s, is := Find(row.profile, tree).Set(name); !is || s.Why != row.why {
			t.Errorf("%s, %s: %q, want %q", row.profile, row.what, s.Why, row.why)
		}
	}
}

// committed is the record of a file with a byte in it, that says nothing of its time.
func committed(name string) string {
	text, err := Commit{Created: time.Now(), Files: []Committing{{Name: name, Size: 1}}}.Encode()
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestStepOf(t *testing.T) {
	for name, want := range map[string]int64{
		"step_100": 100, "iter_0000100": 100, "checkpoint-7": 7, "global_step20": 20, "epoch=3-step=1000.ckpt": 1000, "step=100-val_loss=0.53": 100, "100": 100, "epoch_0_step_9": 9,
		"epoch=3-val_loss=0.90.ckpt": 3, "7-loss=0.25": 7, "val_loss=0.90.ckpt": -1, "step=50-epoch=2.ckpt": 50, "epoch_9-10": 9,
		"last": -1, "": -1, "step_" + strings.Repeat("9", 30): -1, "run2": 2,
	} {
		if got := StepOf(name); got != want {
			t.Errorf("%q: %d", name, got)
		}
	}
}

// TestNewest: what one can go on from is the newest that its mark, or a tracker, says to be whole.
func TestNewest(t *testing.T) {
	args := ":=" + string(torchSays("w", "tensor_model_parallel_size", 2, "pipeline_model_parallel_size", 1, "use_distributed_optimizer", 0))
	zero := ":=" + string(torchSays("w", "dp_world_size", 2, "mp_world_size", 1, "zero_optimization", 0, "stage", 1))
	pair := ":=" + string(torchSays("w", "dp_world_size", 1, "mp_world_size", 2))
	single := ":=" + string(torchSays("w", "dp_world_size", 1, "mp_world_size", 1))
	for _, row := range []struct {
		what    string
		profile Profile
		lines   []string
		want    string
	}{
		{"nothing", DCP, nil, ""},
		{"the newest is on its way", DCP, []string{"step_9/.metadata", "step_10/.metadata", "step_11/__0_0.distcp"}, "step_10"},
		{"the newest is being copied over", DCP, []string{"step_9/.metadata", "step_10/.metadata", "step_10/__0_0.distcp later"}, "step_9"},
		{"no tracker yet", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt"}, ""},
		{"tracked", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt", "iter_0000200/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt=100"}, "iter_0000100"},
		{"what the tracker has passed", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt", "global_step20/mp_rank_00_model_states.pt empty", "latest=global_step20"}, "global_step10"},
		{"the tracker is ahead of what is there", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt", "latest=global_step20"}, ""},
		{"nothing says that it is whole", NeMo, []string{"m/weights/x"}, ""},
		{"incomplete", DCP, []string{"step_9.incomplete-7/.metadata"}, ""},
		{"rolled back", DCP, []string{"step_4000/.metadata", "step_4500/.metadata", "step_5000/.metadata", "step_3500/.metadata", "step_3600/.metadata"}, "step_3600"},
		{"rolled back, as the tracker says", DCP, []string{"step_4000/.metadata", "step_5000/.metadata", "latest=step_4000"}, "step_4000"},
		{"saved after what the tracker names", DCP, []string{"step_5000/.metadata", "latest=step_5000", "step_3600/.metadata"}, "step_3600"},
		{"rolled back, its shards are written again", DCP, []string{"step_4000/.metadata", "step_3600/__0_0.distcp", "step_3600/.metadata", "step_3700/__0_0.distcp"}, "step_3600"},
		{"rolled back, two runs in a folder", DCP, []string{"a_10/.metadata", "b_900/.metadata", "a_20/.metadata"}, "a_20"},
		{"rolled back", Megatron, []string{"iter_0005000/mp_rank_00/model_optim_rng.pt", "iter_0003600/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt=3600"}, "iter_0003600"},
		{"rolled back", HF, []string{"checkpoint-5000/pytorch_model.bin", "checkpoint-5000/trainer_state.json={}", "checkpoint-36/pytorch_model.bin", "checkpoint-36/trainer_state.json={}"}, "checkpoint-36"},
		{"the newest lacks a rank", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt" + args, "iter_0000100/mp_rank_01/model_optim_rng.pt" + args, "iter_0000200/mp_rank_00/model_optim_rng.pt" + args, "latest_checkpointed_iteration.txt=200"}, "iter_0000100"},
		{"the newest lacks a rank that the one before has", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt", "iter_0000100/mp_rank_01/model_optim_rng.pt", "iter_0000200/mp_rank_00/model_optim_rng.pt", "latest_checkpointed_iteration.txt=200"}, "iter_0000100"},
		{"fewer ranks than before, as the next one shows", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt", "iter_0000100/mp_rank_01/model_optim_rng.pt", "iter_0000200/mp_rank_00/model_optim_rng.pt", "iter_0000300/mp_rank_00/model_optim_rng.pt empty", "latest_checkpointed_iteration.txt=300"}, "iter_0000200"},
		{"the newest lacks a rank, and the next one has it", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt", "iter_0000100/mp_rank_01/model_optim_rng.pt", "iter_0000200/mp_rank_00/model_optim_rng.pt", "iter_0000300/mp_rank_00/model_optim_rng.pt empty", "iter_0000300/mp_rank_01/model_optim_rng.pt", "latest_checkpointed_iteration.txt=300"}, "iter_0000100"},
		{"the newest lacks a file of a rank", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt" + args, "iter_0000100/mp_rank_01/model_optim_rng.pt" + args, "iter_0000200/mp_rank_00/model_optim_rng.pt" + args, "iter_0000200/mp_rank_00/distrib_optim.pt", "iter_0000200/mp_rank_01/model_optim_rng.pt" + args, "latest_checkpointed_iteration.txt=200"}, "iter_0000100"},
		{"fewer ranks than before", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt" + args, "iter_0000100/mp_rank_01/model_optim_rng.pt" + args, "iter_0000100/mp_rank_02/model_optim_rng.pt" + args, "iter_0000200/mp_rank_00/model_optim_rng.pt" + args, "iter_0000200/mp_rank_01/model_optim_rng.pt" + args, "latest_checkpointed_iteration.txt=200"}, "iter_0000200"},
		{"the tracker is ahead of what is there, which says its ranks", Megatron, []string{"iter_0000100/mp_rank_00/model_optim_rng.pt" + args, "iter_0000100/mp_rank_01/model_optim_rng.pt" + args, "latest_checkpointed_iteration.txt=200"}, "iter_0000100"},
		{"the newest lacks a rank", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt" + zero, "global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt", "global_step10/zero_pp_rank_1_mp_rank_00_optim_states.pt",
			"global_step20/mp_rank_00_model_states.pt" + zero, "global_step20/zero_pp_rank_0_mp_rank_00_optim_states.pt", "latest=global_step20"}, "global_step10"},
		{"the newest lacks the optimizers of all ranks", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt" + zero, "global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt", "global_step10/zero_pp_rank_1_mp_rank_00_optim_states.pt",
			"global_step20/mp_rank_00_model_states.pt" + zero, "latest=global_step20"}, "global_step10"},
		{"the newest lacks a layer that the one before has", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt", "global_step10/layer_01-model_00-model_states.pt", "global_step20/mp_rank_00_model_states.pt", "latest=global_step20"}, "global_step10"},
		{"fewer ranks than before, whose layers were of two", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt" + pair, "global_step10/mp_rank_01_model_states.pt" + pair, "global_step10/layer_01-model_00-model_states.pt", "global_step10/layer_01-model_01-model_states.pt",
			"global_step20/mp_rank_00_model_states.pt" + single, "global_step20/layer_01-model_00-model_states.pt", "latest=global_step20"}, "global_step20"},
		{"fewer ranks than before, and a layer is not there", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt" + pair, "global_step10/mp_rank_01_model_states.pt" + pair, "global_step10/layer_01-model_00-model_states.pt", "global_step10/layer_02-model_01-model_states.pt",
			"global_step20/mp_rank_00_model_states.pt" + single, "global_step20/layer_01-model_00-model_states.pt", "latest=global_step20"}, "global_step10"},
		{"as many ranks as before, and a half of a layer is not there", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt" + pair, "global_step10/mp_rank_01_model_states.pt" + pair, "global_step10/layer_01-model_00-model_states.pt", "global_step10/layer_01-model_01-model_states.pt",
			"global_step20/mp_rank_00_model_states.pt" + pair, "global_step20/mp_rank_01_model_states.pt" + pair, "global_step20/layer_01-model_00-model_states.pt", "latest=global_step20"}, "global_step10"},
		{"experts of fewer ranks than before", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt" + pair, "global_step10/mp_rank_01_model_states.pt" + pair, "global_step10/layer_0_expert_3_mp_rank_00_model_states.pt", "global_step10/layer_0_expert_3_mp_rank_01_model_states.pt", "global_step10/expp_rank_1_mp_rank_01_optim_states.pt",
			"global_step20/mp_rank_00_model_states.pt" + single, "global_step20/layer_0_expert_3_mp_rank_00_model_states.pt", "global_step20/expp_rank_0_mp_rank_00_optim_states.pt", "latest=global_step20"}, "global_step20"},
		{"the tracker is ahead of what is there, which says its ranks", DeepSpeed, []string{"global_step10/mp_rank_00_model_states.pt" + zero, "global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt", "global_step10/zero_pp_rank_1_mp_rank_00_optim_states.pt", "latest=global_step20"}, "global_step10"},
		{"Lightning's last is the newest", NeMo, []string{"epoch=3-val_loss=0.90.ckpt", "epoch=5-val_loss=0.71.ckpt", "last.ckpt", "last.ckpt.datamove-commit.json:=" + committed("last.ckpt")}, "last.ckpt"},
		{"Lightning's epochs, saved after last", NeMo, []string{"last.ckpt", "epoch=3-val_loss=0.90.ckpt", "epoch=3-val_loss=0.90.ckpt.datamove-commit.json:=" + committed("epoch=3-val_loss=0.90.ckpt")}, "epoch=3-val_loss=0.90.ckpt"},
		{"steps that begin anew in each epoch", Plain, []string{"epoch_9_step_200/_SUCCESS", "epoch_10_step_50/_SUCCESS"}, "epoch_10_step_50"},
		{"the best of them is no tracker", Plain, []string{"step_1/_SUCCESS", "step_2/_SUCCESS", "best -> step_1"}, "step_2"},
	} {
		got, err := Newest(t.Context(), opened(t, made(t, row.lines...)), row.profile, Limits{})
		if err != nil || got != row.want {
			t.Errorf("%s: %q, %v", row.what, got, err)
		}
	}
}

// TestSights: a set is still when two looks, a while apart, have seen the same.
func TestSights(t *testing.T) {
	var s Stability
	now := time.Unix(1000, 0)
	a, b := map[string]Print{"a": {1}}, map[string]Print{"a": {2}}
	look := func(after time.Duration, prints map[string]Print, quiet time.Duration) bool {
		now = now.Add(after)
		s.Look(now, prints)
		return s.Still("a", now, quiet)
	}
	for i, row := range []struct {
		after  time.Duration
		prints map[string]Print
		quiet  time.Duration
		want   bool
	}{
		{0, a, 0, false}, {time.Second, a, 0, true}, {time.Second, a, 5 * time.Second, false}, {3 * time.Second, a, 5 * time.Second, true},
		{time.Second, b, 0, false}, {5 * time.Second, b, 5 * time.Second, true}, {time.Second, nil, 0, false}, {time.Second, b, 0, false},
	} {
		if got := look(row.after, row.prints, row.quiet); got != row.want {
			t.Errorf("look %d: %v", i, got)
		}
	}
}

// TestSave: a change of rights is another print, and no other save; a change of content is.
func TestSave(t *testing.T) {
	dir := made(t, "step_1/__0_0.distcp", "step_1/.metadata")
	first := found(t, DCP, dir).Sets[0]
	time.Sleep(10 * time.Millisecond) // the clock of files is a coarse one
	must.Do(t, os.Chmod(filepath.Join(dir, "step_1/.metadata"), 0o600))
	second := found(t, DCP, dir).Sets[0]
	must.Do(t, os.WriteFile(filepath.Join(dir, "step_1/__0_0.distcp"), []byte("other"), 0o644))
	third := found(t, DCP, dir).Sets[0]
	if first.Print == second.Print || first.Save != second.Save || second.Save == third.Save {
		t.Errorf("%v\n%v\n%v", first, second, third)
	}
}

// FuzzTracker: whatever stands in a tracker, it names one entry beside it, or nothing.
//
//safety:5/jobs with TestHostile
func FuzzTracker(f *testing.F) {
	for _, text := range []string{"100", "release", "../..", "global_step10\n", "/etc", "a/b", "iter_0000100", "\x00", "-1", "99999999999999999999", "./x/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{named(text), iterationNamed(text)} {
			if strings.Contains(name, "/") || name == "." || name == ".." || len(name) > 255 || name != "" && !Speakable(name) {
				t.Errorf("%q names %q", text, name)
			}
		}
		if n := StepOf(text); n < -1 {
			t.Errorf("step %d", n)
		}
		tree := Tree{Entries: []Entry{{Name: "iter_0000100", Kind: Dir}, {Name: "iter_0000100/x", Kind: File, Size: 1}, {Name: "latest", Kind: File, Size: 1}, {Name: megatronTracker, Kind: File}},
			Texts: map[string]string{"latest": text, megatronTracker: text}}
		for p := range forms {
			for _, s := range Find(p, tree).Sets {
				if s.Complete && p == Megatron && StepOf(iterationNamed(text)) < 100 {
					t.Errorf("%q makes %s complete", text, fmt.Sprint(s))
				}
			}
		}
	})
}
