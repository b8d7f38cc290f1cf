package checkpoint

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"
	"time"
)

// shape is how large a job is, and how it saves.
type shape struct {
	ranks, shards, chunks, saves int
	over                         bool // each save over the one before
	keep                         int  // saves that are kept; 0 is all
	again                        bool // the job began again before the last save, and its size is another one
}

// interval is the time between saves: more than the slack of the rules, as they say.
const interval = 30e9

// files of a save of all ranks, of which a step of each is written in turn: ranks write at the same time.
type files []struct {
	name string
	data []byte
	sync bool
}

func (s *script) together(sh shape, set string, all files, have content) {
	for _, f := range all {
		s.do("create", set+"/"+f.name)
	}
	for c := range sh.chunks {
		for _, f := range all {
			s.write(set+"/"+f.name, f.data[c*len(f.data)/sh.chunks:(c+1)*len(f.data)/sh.chunks])
		}
	}
	for _, f := range all {
		if f.sync {
			s.do("fsync", set+"/"+f.name)
		}
		have[f.name] = string(f.data)
	}
}

func (s *script) add(set, name string, data []byte, chunks int, sync bool, have content) {
	s.file(set+"/"+name, data, chunks, sync)
	have[name] = string(data)
}

// remove is shutil.rmtree: what is in a directory in the order of its listing, and then it.
func (s *script) remove(set string, have content) {
	for name := range have { // any order will do
		s.do("unlink", set+"/"+name)
	}
	s.do("rmdir", set)
}

// of is the shape of one save.
func (sh shape) of(save int) shape {
	if sh.again && save == sh.saves-1 {
		sh.ranks++
	}
	return sh
}

// dcpWriter: torch/distributed/checkpoint/filesystem.py (pytorch b639d82d, 2.5): each rank writes and syncs its files (write_data), then the first one .metadata.tmp, which it
// syncs; an old .metadata goes, and the new one is renamed (finish).
func dcpWriter(sh shape) *script { return dcp(sh, 0) }

// dcpAsyncWriter is async_save (torch/distributed/checkpoint/state_dict_saver.py): the same from a thread, while the job goes on, so that all takes longer.
func dcpAsyncWriter(sh shape) *script { return dcp(sh, 20e9) }
func dcp(sh shape, takes int64) *script {
	s, old := newScript(), map[string]content{}
	for save := range sh.saves {
		set := fmt.Sprintf("step_%d", (save+1)*10)
		if sh.over {
			set = "last"
		}
		sh, have := sh.of(save), content{}
		s.do("mkdir", set)
		var all files
		for r := range sh.ranks {
			for n := range sh.shards {
				name := fmt.Sprintf("__%d_%d.distcp", r, n)
				all = append(all, struct {
					name string
					data []byte
					sync bool
				}{name, torch(fmt.Sprintf("%s of save %d", name, save)), true})
			}
		}
		s.together(sh, set, all, have)
		s.rest(takes)
		s.file(set+"/.metadata.tmp", pickled(all, save), sh.chunks, true)
		have[".metadata"] = string(pickled(all, save))
		if sh.over && save > 0 {
			s.do("unlink", set+"/.metadata")
		}
		s.rename(set+"/.metadata.tmp", set+"/.metadata")
		s.whole(set, have)
		old[set] = have
		s.rotate(sh, save, func(n int) string { return fmt.Sprintf("step_%d", (n+1)*10) }, old)
		s.rest(interval)
	}
	return s
}

// rotate removes the oldest save that is not to be kept.
func (s *script) rotate(sh shape, save int, name func(int) string, have map[string]content) {
	if sh.keep > 0 && save >= sh.keep && !sh.over {
		s.rest(interval)
		s.remove(name(save-sh.keep), have[name(save-sh.keep)])
	}
}

// megatronWriter: megatron/training/checkpointing.py (Megatron-LM 0032978f, save_checkpoint): the optimizer's file of each rank, then model_optim_rng.pt by torch.save, none synced; a barrier; the
// tracker is opened for writing, which empties it, and written; then an old iteration is removed. With torch_dist: common.pt, shards and .metadata as in DCP, then metadata.json.
// args is the first that model_optim_rng.pt has (generate_state_dict).
func megatronWriter(stages int, says bool) func(shape) *script {
	return func(sh shape) *script { return megatron(sh, false, says, stages) }
}
func megatronDistWriter(sh shape) *script { return megatron(sh, true, true, 1) }
func megatron(sh shape, dist, says bool, stages int) *script {
	s, old := newScript(), map[string]content{}
	iter := func(n int) string { return fmt.Sprintf("iter_%07d", (n+1)*100) }
	for save := range sh.saves {
		sh, set, have := sh.of(save), iter(save), content{}
		s.do("mkdir", set)
		if dist {
			s.add(set, "common.pt", torch(fmt.Sprint("common ", save)), sh.chunks, false, have)
			var all files
			for r := range sh.ranks {
				name := fmt.Sprintf("__%d_0.distcp", r)
				all = append(all, struct {
					name string
					data []byte
					sync bool
				}{name, torch(fmt.Sprint(name, save)), true})
			}
			s.together(sh, set, all, have)
			s.file(set+"/.metadata.tmp", pickled(all, save), sh.chunks, true)
			s.rename(set+"/.metadata.tmp", set+"/.metadata")
			have[".metadata"] = string(pickled(all, save))
			s.add(set, "metadata.json", jsonOf(fmt.Sprint(save)), 1, false, have)
		} else {
			var all files
			for r := range sh.ranks * stages {
				rank := fmt.Sprintf("mp_rank_%02d", r/stages)
				if stages > 1 {
					rank += fmt.Sprintf("_%03d", r%stages)
				}
				s.do("mkdir", set+"/"+rank)
				for n := range sh.shards {
					name := fmt.Sprintf("%s/%s", rank, []string{megatronStates, "distrib_optim.pt", "more.pt"}[n%3])
					data := torch(fmt.Sprint(name, save))
					if n == 0 && says {
						data = torchSays(fmt.Sprint(name, save), "world_size", 8, "tensor_model_parallel_size", sh.ranks, "pipeline_model_parallel_size", stages, "use_distributed_optimizer", min(1, sh.shards-1))
					}
					all = append(all, struct {
						name string
						data []byte
						sync bool
					}{name, data, false})
				}
			}
			s.together(sh, set, all, have)
		}
		s.file(megatronTracker, fmt.Appendf(nil, "%d", (save+1)*100), 2, false)
		s.whole(set, have)
		old[set] = have
		if !dist && sh.keep > 0 && save >= sh.keep {
			s.rest(interval)
			gone := iter(save - sh.keep)
			for name := range old[gone] {
				s.do("unlink", gone+"/"+name)
			}
		} else if dist {
			s.rotate(sh, save, iter, old)
		}
		s.rest(interval)
	}
	return s
}

// deepSpeedWriter: deepspeed/runtime/engine.py (DeepSpeed b555aa53, save_checkpoint): the directory of the tag; each rank's model and optimizer states by torch.save, none synced;
// commit of the engine; latest is opened for writing, and written.
// The model's file has dp_world_size, mp_world_size and ds_config behind the module. stage is that of ZeRO; -1 is 1, and files that say nothing.
func deepSpeedWriter(stage int) func(shape) *script {
	return func(sh shape) *script { return deepSpeed(sh, stage) }
}
func deepSpeed(sh shape, stage int) *script {
	s, old := newScript(), map[string]content{}
	tag := func(n int) string { return fmt.Sprintf("global_step%d", (n+1)*10) }
	for save := range sh.saves {
		sh, set, have := sh.of(save), tag(save), content{}
		s.do("mkdir", set)
		var all files
		dp, mp := sh.ranks, sh.shards // of which each data-parallel rank, or each model-parallel one, has a file
		for r := range dp * mp {
			for _, name := range deepSpeedFiles(stage, r/mp, r%mp) {
				data := torch(fmt.Sprint(name, save))
				if stage >= 0 && strings.HasSuffix(name, "model_states.pt") {
					data = torchSays(fmt.Sprint(name, save), "module", 0, "dp_world_size", dp, "mp_world_size", mp, "zero_optimization", 0, "stage", stage)
				}
				all = append(all, struct {
					name string
					data []byte
					sync bool
				}{name, data, false})
			}
		}
		s.together(sh, set, all, have)
		s.file("latest", []byte(set), 2, false)
		s.whole(set, have)
		old[set] = have
		s.rotate(sh, save, tag, old)
		s.rest(interval)
	}
	return s
}

// universalWriter: deepspeed/checkpoint/ds_to_universal.py (DeepSpeed b555aa53, main): a save, and then what is made of it: zero/PARAMETER with a file for the weights and each state of the optimizer, the
// model's files as they are, and latest_universal.
func universalWriter(sh shape) *script {
	s := deepSpeed(shape{ranks: sh.ranks, shards: 1, chunks: 1, saves: 1}, 1)
	for save := range sh.saves {
		set, have := fmt.Sprintf("global_step%d_universal", (save+1)*10), content{}
		s.do("mkdir", set)
		s.do("mkdir", set+"/zero")
		for n := range sh.shards + 1 {
			s.do("mkdir", fmt.Sprintf("%s/zero/layer.%d.weight", set, n))
			for _, state := range []string{"fp32.pt", "exp_avg.pt", "exp_avg_sq.pt"} {
				name := fmt.Sprintf("zero/layer.%d.weight/%s", n, state)
				s.add(set, name, torch(fmt.Sprint(name, save)), sh.chunks, false, have)
			}
		}
		s.add(set, "mp_rank_00_model_states.pt", torchSays(fmt.Sprint("m", save), "dp_world_size", sh.ranks, "mp_world_size", 1, "stage", 1), 1, false, have)
		s.file("latest_universal", []byte(set), 2, false)
		s.whole(set, have)
		s.rest(interval)
	}
	return s
}

// deepSpeedFiles are those of a rank.
func deepSpeedFiles(stage, data, model int) (names []string) {
	if stage == 3 {
		names = append(names, fmt.Sprintf("zero_pp_rank_%d_mp_rank_%02d_model_states.pt", data, model))
	} else if data == 0 {
		names = append(names, fmt.Sprintf("mp_rank_%02d_model_states.pt", model))
	}
	if stage != 0 {
		names = append(names, fmt.Sprintf("zero_pp_rank_%d_mp_rank_%02d_optim_states.pt", data, model))
	}
	return names
}

// orbaxWriter: checkpoint/orbax/checkpoint/_src/path/atomicity.py (orbax 08ec2b42): _CHECKPOINT_METADATA is made with the temporary directory and rewritten when all items are there
// (finalize); then the directory is renamed. The store's driver syncs what it writes.
func orbaxWriter(sh shape) *script { return orbax(sh, false) }

// orbaxFileWriter is CommitFileTemporaryPath of the same file: the directory has its name from the beginning, and commit_success.txt comes last.
func orbaxFileWriter(sh shape) *script { return orbax(sh, true) }
func orbax(sh shape, byFile bool) *script {
	s, old := newScript(), map[string]content{}
	for save := range sh.saves {
		final, have := fmt.Sprint((save+1)*100), content{}
		set := final
		if !byFile {
			set = final + ".orbax-checkpoint-tmp-17"
		}
		s.do("mkdir", set)
		s.file(set+"/"+orbaxMetadata, []byte(`{"init_timestamp_nsecs":1,"commit_timestamp_nsecs":null}`), 1, false)
		s.database(sh, set, save, have)
		s.add(set, "default/_METADATA", []byte(`{"tree_metadata":{},"use_ocdbt":true}`), 1, true, have)
		done := fmt.Appendf(nil, `{"init_timestamp_nsecs":1,"commit_timestamp_nsecs":%d}`, save+2)
		s.add(set, orbaxMetadata, done, 1, false, have)
		if byFile {
			s.whole(final, have) // it has written down that it has committed, and a reader finds all
			s.add(set, orbaxCommit, []byte("Checkpoint commit was successful"), 1, false, have)
		} else {
			s.rename(set, final)
		}
		s.whole(final, have)
		old[final] = have
		s.rest(interval)
	}
	return s
}

// database writes what processes have in a database of their own, and then the one above them.
func (s *script) database(sh shape, set string, save int, have content) {
	var values []string
	for n := range sh.shards {
		values = append(values, strings.Repeat(fmt.Sprint("value", n, save), 3))
	}
	d := orbaxDatabase(save%2 == 0, sh.ranks, values...)
	s.do("mkdir", set+"/default")
	s.do("mkdir", set+"/default/d")
	for r := range sh.ranks {
		s.do("mkdir", fmt.Sprintf("%s/default/ocdbt.process_%d", set, r))
		s.do("mkdir", fmt.Sprintf("%s/default/ocdbt.process_%d/d", set, r))
	}
	var own, above files
	for _, name := range d.names {
		to := &above
		if strings.HasPrefix(name, ocdbtOfProcess) {
			to = &own
		}
		*to = append(*to, struct {
			name string
			data []byte
			sync bool
		}{"default/" + name, d.files[name], true})
	}
	s.together(sh, set, own, have)
	s.together(sh, set, above, have)
}

// orbaxOldWriter is that of versions before _CHECKPOINT_METADATA (orbax/checkpoint/pytree_checkpoint_handler.py, 0.4): the items have a _METADATA, and the directory is renamed.
func orbaxOldWriter(sh shape) *script {
	s := newScript()
	for save := range sh.saves {
		final, have := fmt.Sprint((save+1)*100), content{}
		set := final + ".orbax-checkpoint-tmp-1700"
		s.do("mkdir", set)
		s.database(sh, set, save, have)
		s.add(set, "default/_METADATA", jsonOf(fmt.Sprint(save)), 1, true, have)
		s.add(set, "default/_sharding", jsonOf("sharding"), 1, true, have)
		s.rename(set, final)
		s.whole(final, have)
		s.rest(interval)
	}
	return s
}

// hfWriter: src/transformers/trainer.py (transformers 2cda12cb, _save_checkpoint): config, shards of safetensors and their index, then optimizer, scheduler, random states, and
// trainer_state.json, all at their final names and none synced; then the oldest is removed.
func hfWriter(sh shape) *script { return hf(sh, false) }

// hfRenameWriter is that of versions 4.36 and 4.37, which write to tmp-checkpoint-N and rename it.
func hfRenameWriter(sh shape) *script { return hf(sh, true) }
func hf(sh shape, rename bool) *script {
	s, old := newScript(), map[string]content{}
	name := func(n int) string { return fmt.Sprintf("checkpoint-%d", (n+1)*500) }
	for save := range sh.saves {
		final, have := name(save), content{}
		set := final
		if rename {
			set = "tmp-" + final
		}
		s.do("mkdir", set)
		s.add(set, "config.json", jsonOf("config"), 1, false, have)
		index := []string{}
		for n := range sh.shards {
			shard := fmt.Sprintf("model-%05d-of-%05d.safetensors", n+1, sh.shards)
			if sh.shards == 1 { // one that is not sharded has no index
				shard = "model.safetensors"
			}
			s.add(set, shard, safetensors(fmt.Sprint("w", n, save)), sh.chunks, false, have)
			index = append(index, fmt.Sprintf(`"layer.%d": %q`, n, shard))
		}
		if sh.shards > 1 {
			s.add(set, "model.safetensors.index.json", []byte(`{"weight_map": {`+strings.Join(index, ", ")+`}}`), 1, false, have)
		}
		s.add(set, "training_args.bin", torch("args"), 1, false, have)
		s.add(set, "optimizer.pt", torch(fmt.Sprint("optimizer", save)), sh.chunks, false, have)
		s.add(set, "scheduler.pt", torch(fmt.Sprint("scheduler", save)), 1, false, have)
		for r := range sh.ranks {
			s.add(set, fmt.Sprintf("rng_state_%d.pth", r), torch(fmt.Sprint("rng", r, save)), 1, false, have)
		}
		s.add(set, "trainer_state.json", jsonOf(fmt.Sprint("state", save)), sh.chunks, false, have)
		if rename {
			s.rename(set, final)
		}
		s.whole(final, have)
		old[final] = have
		s.rotate(sh, save, name, old)
		s.rest(interval)
	}
	return s
}

// nemoWriter: nemo/utils/callbacks/nemo_model_checkpoint.py (NeMo 5bc11995, _save_checkpoint): a marker beside the checkpoint, its file by torch.save, the weights' mean under a name of its own
// with the same marker, and the marker goes. What is removed is marked before.
func nemoWriter(sh shape) *script {
	s := newScript()
	for save := range sh.saves {
		base := fmt.Sprintf("gpt--step=%d", (save+1)*100)
		s.do("create", base+unfinished)
		for _, name := range []string{base + ".ckpt", base + "-EMA.ckpt"} {
			data := torch(fmt.Sprint(name, save))
			s.file(name, data, sh.chunks*sh.shards, false)
			s.whole(name, content{"": string(data)})
		}
		s.do("unlink", base+unfinished)
		last := base + "-last"
		s.do("create", last+unfinished)
		s.file(last+".ckpt", torch(last), sh.chunks, false)
		s.whole(last+".ckpt", content{"": string(torch(last))})
		s.do("unlink", last+unfinished)
		s.rest(interval)
		if gone := save - sh.keep; sh.keep > 0 && gone >= 0 {
			old := fmt.Sprintf("gpt--step=%d", (gone+1)*100)
			s.do("create", old+unfinished)
			s.do("unlink", old+".ckpt")
			s.do("unlink", old+"-EMA.ckpt")
			s.do("unlink", old+unfinished)
		}
	}
	return s
}

// lightningWriter: lightning/pytorch/callbacks/model_checkpoint.py (lightning 2.5): files of torch.save under their last names, the best by loss, and last.ckpt each time.
func lightningWriter(sh shape) *script {
	s := newScript()
	for save := range sh.saves {
		for _, name := range []string{fmt.Sprintf("epoch=%d-val_loss=0.%d0.ckpt", save, 9-save), "last.ckpt"} {
			data := torch(fmt.Sprint(name, save))
			s.file(name, data, sh.chunks*sh.shards, false)
			s.whole(name, content{"": string(data)})
		}
		s.rest(interval)
	}
	return s
}

// nemoArchiveWriter is save_to (nemo/core/connectors/save_restore_connector.py): one tar archive.
func nemoArchiveWriter(sh shape) *script {
	s := newScript()
	for save := range sh.saves {
		name := fmt.Sprintf("m--step=%d.nemo", (save+1)*100)
		var b bytes.Buffer
		out := tar.NewWriter(&b)
		text := strings.Repeat(fmt.Sprint("weights of save ", save), 40)
		_ = out.WriteHeader(&tar.Header{Name: "model_weights.ckpt", Size: int64(len(text)), Mode: 0o644, Format: tar.FormatUSTAR})
		_, _ = out.Write([]byte(text))
		_ = out.Close()
		s.file(name, b.Bytes(), sh.chunks, false)
		s.whole(name, content{"": b.String()})
		s.rest(interval)
	}
	return s
}

// nemoDistWriter is the same with a distributed checkpoint (nemo/lightning/pytorch/callbacks/model_checkpoint.py): a directory, with weights as in DCP.
func nemoDistWriter(sh shape) *script {
	s := newScript()
	for save := range sh.saves {
		set, have := fmt.Sprintf("gpt--step=%d", (save+1)*100), content{}
		s.do("create", set+unfinished)
		s.do("mkdir", set)
		s.do("mkdir", set+"/weights")
		var all files
		for r := range sh.ranks {
			name := fmt.Sprintf("weights/__%d_0.distcp", r)
			all = append(all, struct {
				name string
				data []byte
				sync bool
			}{name, torch(fmt.Sprint(name, save)), true})
		}
		s.together(sh, set, all, have)
		s.file(set+"/weights/.metadata.tmp", pickled(all, save), sh.chunks, true)
		s.rename(set+"/weights/.metadata.tmp", set+"/weights/.metadata")
		have["weights/.metadata"] = string(pickled(all, save))
		s.add(set, "weights/common.pt", torch(fmt.Sprint("common", save)), 1, false, have)
		s.do("mkdir", set+"/context")
		s.add(set, "context/io.json", jsonOf(fmt.Sprint(save)), 1, false, have)
		s.do("unlink", set+unfinished)
		s.whole(set, have)
		s.rest(interval)
	}
	return s
}

// plainWriter is a script of a user's own: files that it syncs, and then a mark. Those who do not sync lose it to a power cut, and no mark can tell.
func plainWriter(sh shape) *script {
	s, old := newScript(), map[string]content{}
	name := func(n int) string { return fmt.Sprintf("step_%d", n+1) }
	for save := range sh.saves {
		set, have := name(save), content{}
		if sh.over {
			set = "last"
			if save > 0 {
				s.do("unlink", set+"/_SUCCESS")
			}
		}
		s.do("mkdir", set)
		for n := range sh.shards * sh.ranks {
			s.add(set, fmt.Sprintf("part-%d", n), []byte(strings.Repeat(fmt.Sprint("part", n, save), 4)), sh.chunks, true, have)
		}
		s.do("create", set+"/_SUCCESS")
		have["_SUCCESS"] = ""
		s.whole(set, have)
		old[set] = have
		s.rotate(sh, save, name, old)
		s.rest(interval)
	}
	return s
}

// commitWriter is the same with "datamove checkpoint commit", which syncs everything itself and renames its file; here over the checkpoint of before, without a word.
func commitWriter(sh shape) *script {
	s := newScript()
	for save := range sh.saves {
		set, have, c := "last", content{}, Commit{Created: time.Unix(int64(save), 0)}
		s.do("mkdir", set)
		for n := range sh.shards * sh.ranks {
			s.add(set, fmt.Sprintf("part-%02d", n), []byte(strings.Repeat(fmt.Sprint("part", n, save), 4)), sh.chunks, true, have)
		}
		d := run(s.ops, len(s.ops), 0, kept)
		for n := range sh.shards * sh.ranks {
			name := fmt.Sprintf("part-%02d", n)
			at := d.nodes[set+"/"+name]
			c.Files = append(c.Files, Committing{Name: name, Size: int64(len(at.data)), Modified: at.modified})
		}
		text, err := c.Encode()
		if err != nil {
			panic(err)
		}
		s.file(set+"/.datamove-x-1-1", text, 2, true)
		s.rename(set+"/.datamove-x-1-1", set+"/"+Committed)
		have[Committed] = string(text)
		s.whole(set, have)
		s.rest(200e6) // it needs no slack
	}
	return s
}
