package state

import (
	"encoding/hex"
	"strconv"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
)

// What there is. The comment of a table says what its keys are made of. A new table
// or index needs a line here, with a letter that none had before.
var (
	// Tasks: id.
	Tasks = newTable("tasks", 't', func(m *datamovev1.Task) []string { return []string{m.GetId()} })
	// TasksByEnd are the tasks that have ended: when.
	TasksByEnd = newIndex(Tasks, 'e', 1, taskEnd)
	tasksBy    = newIndex(Tasks, 'f', 2, facets)
	// tasksByTarget are those that change a place, and those that have brought data there: see targets.
	tasksByTarget = newIndex(Tasks, 'w', 3, targets)
	// tasksBySource are those that are to read a place: see sources.
	tasksBySource = newIndex(Tasks, 'r', 2, sources)
	// tasksByPastSource are those that were to read a place, and have ended: see pastSources.
	tasksByPastSource = newIndex(Tasks, 'p', 3, pastSources)

	// Batches that tasks gave away: task, id. One that is done is deleted.
	Batches = newTable("batches", 'b', func(m *ledgerv1.Batch) []string { return []string{m.GetTask(), m.GetId()} })
	// BatchesByState: BatchState.String(), task.
	BatchesByState = newIndex(Batches, 's', 2, func(m *ledgerv1.Batch) [][]string {
		return [][]string{{m.GetState().String(), m.GetTask()}}
	})
	// Works are what batches consist of: task, batch.
	Works = newTable("works", 'w', func(m *ledgerv1.Work) []string { return []string{m.GetTask(), m.GetBatch()} })
	// Drafts that tasks keep: task, name.
	Drafts = newTable("drafts", 'd', func(m *ledgerv1.Draft) []string { return []string{m.GetTask(), m.GetName()} })
	// Pieces of drafts: task, draft, Number(number).
	Pieces = newTable("pieces", 'o', func(m *ledgerv1.Piece) []string {
		return []string{m.GetTask(), m.GetDraft(), Number(m.GetNumber())}
	})
	// Keys of idempotency: caller, key. They go with their task.
	Keys = newTable("keys", 'k', func(m *ledgerv1.Key) []string { return []string{m.GetCaller(), m.GetKey()} })
	// KeysByTask: task.
	KeysByTask = newIndex(Keys, 't', 1, func(m *ledgerv1.Key) [][]string { return [][]string{{m.GetTask()}} })

	// Agents that joined: name.
	Agents = newTable("agents", 'a', func(m *ledgerv1.AgentRecord) []string { return []string{m.GetAgent().GetName()} })
	// JoinTokens that were not yet used: digest in hex.
	JoinTokens = newTable("join-tokens", 'j', func(m *ledgerv1.JoinToken) []string {
		return []string{hex.EncodeToString(m.GetDigest())}
	})
	// Revoked certificates: serial.
	Revoked = newTable("revoked", 'x', func(m *ledgerv1.Revoked) []string { return []string{m.GetSerial()} })
	// Forgotten nodes: name.
	Forgotten = newTable("forgotten", 'g', func(m *ledgerv1.Forgotten) []string { return []string{m.GetName()} })

	// Datasets, without their versions: name.
	Datasets = newTable("datasets", 's', func(m *datamovev1.Dataset) []string { return []string{m.GetName()} })
	// Versions of datasets: dataset, Number(number). The newest is the last.
	Versions = newTable("versions", 'v', func(m *ledgerv1.DatasetVersion) []string {
		return []string{m.GetDataset(), Number(m.GetNumber())}
	})
	// VersionsByDigest: dataset, digest.
	VersionsByDigest = newIndex(Versions, 'd', 2, func(m *ledgerv1.DatasetVersion) [][]string {
		return [][]string{{m.GetDataset(), m.GetVersion().GetDigest()}}
	})
	// Replicas: dataset, digest, tier, node, and the location where there is no tier, else "".
	// What is of no dataset stands under NoDataset, with its location.
	Replicas = newTable("replicas", 'r', func(m *datamovev1.Replica) []string { return ReplicaKey(m) })
	// ReplicasByTier: tier, node.
	ReplicasByTier = newIndex(Replicas, 't', 2, func(m *datamovev1.Replica) [][]string {
		return [][]string{{m.GetTier(), m.GetNode()}}
	})
	// Leases: id.
	Leases = newTable("leases", 'l', func(m *datamovev1.Lease) []string { return []string{m.GetId()} })
	// LeasesByReplica: the key of the replica.
	LeasesByReplica = newIndex(Leases, 'r', 5, func(m *datamovev1.Lease) [][]string { return [][]string{ReplicaKey(m)} })
	// LeasesByExpiry: Time(expire_time).
	LeasesByExpiry = newIndex(Leases, 'e', 1, func(m *datamovev1.Lease) [][]string {
		return [][]string{{Time(m.GetExpireTime())}}
	})
	// StageWaiters of what is on its way: task, id of the lease.
	StageWaiters = newTable("wishes", 'y', func(m *ledgerv1.Wish) []string { return []string{m.GetTask(), m.GetLease().GetId()} })
	wishesBy     = newIndex(StageWaiters, 'f', 2, wishFacets)
	// Pins: dataset, digest, tier.
	Pins = newTable("pins", 'p', func(m *datamovev1.PinInfo) []string {
		return []string{m.GetDataset(), m.GetDigest(), m.GetTier()}
	})
	// Usage: Day(day), project, User(owner).
	Usage = newTable("usage", 'u', func(m *datamovev1.Usage) []string {
		return []string{Day(m.GetDay().AsTime()), m.GetProject(), User(m.GetOwner())}
	})

	// Runs of policies: id.
	Runs = newTable("runs", 'n', func(m *datamovev1.Run) []string { return []string{m.GetId()} })
	// RunsByPolicy: policy, id.
	RunsByPolicy = newIndex(Runs, 'p', 2, func(m *datamovev1.Run) [][]string { return [][]string{{m.GetPolicy(), m.GetId()}} })
	// RunsByState: RunState.String(), id.
	RunsByState = newIndex(Runs, 's', 2, func(m *datamovev1.Run) [][]string { return [][]string{{m.GetState().String(), m.GetId()}} })

	// Announcements of runs: policy.
	Announcements = newTable("announcements", 'm', func(m *ledgerv1.Announcement) []string { return []string{m.GetPolicy()} })

	// Checkpoints: tier, node, folder, name.
	Checkpoints = newTable("checkpoints", 'h', func(m *datamovev1.Checkpoint) []string {
		return []string{m.GetTier(), m.GetNode(), string(m.GetFolder()), string(m.GetName())}
	})
	// CheckpointsBySave: name, save.
	CheckpointsBySave = newIndex(Checkpoints, 's', 2, func(m *datamovev1.Checkpoint) [][]string {
		if m.GetSave() == "" {
			return nil
		}
		return [][]string{{string(m.GetName()), m.GetSave()}}
	})

	// Bursts: id.
	Bursts = newTable("bursts", 'q', func(m *ledgerv1.BurstRecord) []string { return []string{m.GetId()} })
	// BurstsByName: name, Time(create_time). The newest of a name is the last.
	BurstsByName = newIndex(Bursts, 'n', 2, func(m *ledgerv1.BurstRecord) [][]string {
		return [][]string{{m.GetName(), Time(m.GetCreateTime())}}
	})
	// BurstsByTime: Time(create_time).
	BurstsByTime = newIndex(Bursts, 't', 1, func(m *ledgerv1.BurstRecord) [][]string { return [][]string{{Time(m.GetCreateTime())}} })
	// BurstsFollowed are those that come home by themselves: Time(follow_time).
	BurstsFollowed = newIndex(Bursts, 'f', 1, func(m *ledgerv1.BurstRecord) [][]string {
		if m.GetFollower() == nil {
			return nil
		}
		return [][]string{{Time(m.GetFollowTime())}}
	})
	// BurstTexts are the records of bursts: id.
	BurstTexts = newTable("burst-texts", 'z', func(m *ledgerv1.BurstText) []string { return []string{m.GetId()} })
	// Spendings are the entries of the accounts of teams: Number(number). They only grow.
	Spendings = newTable("spendings", 'i', func(m *ledgerv1.Spending) []string { return []string{Number(m.GetNumber())} })

	// counters: name.
	counters = newTable("counters", 'c', func(m *ledgerv1.Counter) []string { return []string{m.GetName()} })
)

// ReplicaKey is the key of a replica, or of the one that a lease holds.
func ReplicaKey(m interface {
	GetDataset() string
	GetDigest() string
	GetTier() string
	GetNode() string
	GetLocation() string
}) []string {
	dataset, location := m.GetDataset(), m.GetLocation()
	switch {
	case dataset == "":
		dataset = NoDataset
	case m.GetTier() != "":
		location = ""
	}
	return []string{dataset, m.GetDigest(), m.GetTier(), m.GetNode(), location}
}

// NoDataset stands in keys for the name of a dataset where there is none. No dataset
// has that name.
const NoDataset = "-"

// User is a part of a key: an account by its name, or by its number without one.
func User(a *datamovev1.Account) string {
	if a.GetName() != "" {
		return a.GetName()
	}
	return "#" + strconv.FormatUint(uint64(a.GetUid()), 10)
}

// Ended says whether a task is over.
func Ended(s datamovev1.TaskState) bool {
	return s == datamovev1.TaskState_TASK_STATE_DONE || s == datamovev1.TaskState_TASK_STATE_FAILED ||
		s == datamovev1.TaskState_TASK_STATE_CANCELLED
}

func taskEnd(m *datamovev1.Task) [][]string {
	if !Ended(m.GetState()) {
		return nil
	}
	return [][]string{{Time(m.GetEndTime())}}
}
