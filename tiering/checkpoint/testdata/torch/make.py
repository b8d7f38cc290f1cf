"""Writes checkpoints with PyTorch, and safetensors where it is installed, into DIR: make.py DIR.

The archives beside this file are from python3-torch of Debian 12 (1.13.1) and 13 (2.6.0, with
python3-safetensors 0.4.5): tar --sort=name --owner=0 --group=0 -czf 2.6.tar.gz -C DIR .
"""
import argparse, os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

try:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
except (ImportError, ValueError):  # that of 1.13 does not load in Python 3.11
    dcp = None

RANKS = 2


def state(many):
    t = {"w%d" % n: torch.full((5, 3), float(n)) for n in range(many)}
    return {"model": t, "step": 20, "rng": {"state": torch.arange(8)}, "lr": 1e-3}


def rank(r, where):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", GLOO_SOCKET_IFNAME="lo", RANK=str(r), USE_LIBUV="0", WORLD_SIZE=str(RANKS))
    dist.init_process_group("gloo", rank=r, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    s = state(3)
    s["model"]["sharded"] = distribute_tensor(torch.arange(64, dtype=torch.float32).reshape(8, 8), mesh, [Shard(0)])
    dcp.save(s, checkpoint_id=where + "/dcp/step_10")
    dcp.async_save(s, checkpoint_id=where + "/dcp/step_20").result()
    dcp.save(s, storage_writer=dcp.FileSystemWriter(where + "/dcp/step_30", single_file_per_rank=False))
    dcp.save(state(350), checkpoint_id=where + "/dcp/step_40")
    dist.barrier()
    os._exit(0)  # gloo may hang where it is taken down


def main(where):
    if dcp:
        os.makedirs(where + "/dcp", exist_ok=True)
        mp.spawn(rank, args=(where,), nprocs=RANKS)
    for it in (100, 200):
        for tp in range(2):
            d = "%s/megatron/iter_%07d/mp_rank_%02d" % (where, it, tp)
            os.makedirs(d)
            args = argparse.Namespace(num_layers=24, tensor_model_parallel_size=2, pipeline_model_parallel_size=1, expert_model_parallel_size=1,
                                      use_distributed_optimizer=False, world_size=2, data_path=["a", "b"], lr=1e-4, save="/x", rank=tp)
            torch.save({"args": args, "checkpoint_version": 3.0, "iteration": it, "model": state(2)["model"], "rng_state": [{"torch": torch.arange(4)}]},
                       d + "/model_optim_rng.pt")
        open(where + "/megatron/latest_checkpointed_iteration.txt", "w").write(str(it))
    for step in (10, 20):
        d = "%s/deepspeed/global_step%d" % (where, step)
        os.makedirs(d)
        config = {"train_batch_size": 8, "zero_optimization": {"stage": 1}, "fp16": {"enabled": True}}
        torch.save({"module": state(2)["model"], "buffer_names": [], "optimizer": None, "param_shapes": [{"w0": torch.Size([5, 3])}], "frozen_param_shapes": None,
                    "shared_params": {}, "lr_scheduler": None, "skipped_steps": 0, "global_steps": step, "global_samples": 8 * step,
                    "dp_world_size": 2, "mp_world_size": 1, "ds_config": config, "ds_version": "0.16.4"}, d + "/mp_rank_00_model_states.pt")
        for r in range(2):
            torch.save({"optimizer_state_dict": {"loss_scaler": None, "dynamic_loss_scale": True, "overflow": False, "partition_count": [2], "zero_stage": 1,
                        "single_partition_of_fp32_groups": [torch.ones(8)]}, "ds_config": config, "ds_version": "0.16.4"},
                       "%s/zero_pp_rank_%d_mp_rank_00_optim_states.pt" % (d, r))
        open(where + "/deepspeed/latest", "w").write("global_step%d" % step)
    os.makedirs(where + "/plain")
    torch.save({"a": torch.arange(20)}, where + "/plain/zip.pt")
    torch.save({"a": torch.arange(20)}, where + "/plain/legacy.pt", _use_new_zipfile_serialization=False)
    try:
        from safetensors.torch import save_file
    except ImportError:
        return
    d = where + "/hf/checkpoint-5"
    os.makedirs(d)
    for n in (1, 2):
        save_file({"w%d" % n: torch.arange(6.0)}, d + "/model-0000%d-of-00002.safetensors" % n, metadata={"format": "pt"})


if __name__ == "__main__":
    main(sys.argv[1])
