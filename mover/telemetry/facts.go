package telemetry

import (
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
)

// Tasks says how many tasks of a class are in a state.
func (s *Sample) Tasks(c datamovev1.TaskClass, state datamovev1.TaskState, n int) {
	s.sum(rowTasks.Row, float64(n), class(c), taskState(state))
}

// OldestQueued says how long a task of a class has been waiting in the queue. The
// greatest counts; tell 0 where none waits.
func (s *Sample) OldestQueued(c datamovev1.TaskClass, waits time.Duration) {
	s.greatest(rowOldestQueued.Row, waits.Seconds(), class(c))
}

// WaitingForRoom says how many running tasks wait for room on a tier.
func (s *Sample) WaitingForRoom(tier string, n int) {
	s.sum(rowWaitingForRoom.Row, float64(n), tier)
}

// Batches says how many batches wait, and how many agents have.
func (s *Sample) Batches(queued, leased int) {
	s.sum(rowBatches.Row, float64(queued), "queued")
	s.sum(rowBatches.Row, float64(leased), "leased")
}

// Room says how much room a tier has. A node-local one has some on each agent; agent
// is "" for one that all share.
func (s *Sample) Room(tier, agent string, totalBytes, freeBytes int64) {
	s.sum(rowTierTotal.Row, float64(totalBytes), tier, agent)
	s.sum(rowTierFree.Row, float64(freeBytes), tier, agent)
}

// Reached says how many agents are ready and reach a tier.
func (s *Sample) Reached(tier string, agents int) {
	s.sum(rowTierAgents.Row, float64(agents), tier)
}

// Catalog says of when the catalog of a tier is, and how many files it had then; the zero time is never. agent is the node of a node-local tier.
func (s *Sample) Catalog(tier, agent string, of time.Time, files int64) {
	at := 0.0
	if !of.IsZero() {
		at = float64(of.UnixMilli()) / 1e3
	}
	s.sum(rowCatalogTime.Row, at, tier, agent)
	s.sum(rowCatalogFiles.Row, float64(files), tier, agent)
}

// Feed says whether changes of a tier are heard of.
func (s *Sample) Feed(tier, agent string, up bool) {
	s.sum(rowCatalogFeed.Row, map[bool]float64{true: 1}[up], tier, agent)
}

// CheckpointsWait says how long checkpoints of a tier have waited that policies bring to another one, and how long they may.
func (s *Sample) CheckpointsWait(source, target string, longest, objective time.Duration) {
	s.sum(rowCheckpointWaits.Row, longest.Seconds(), source, target)
	s.sum(rowCheckpointObjective.Row, objective.Seconds(), source, target)
}

// Replicas says how many replicas on a tier are in a state.
func (s *Sample) Replicas(tier string, state datamovev1.ReplicaState, n int) {
	s.sum(rowReplicas.Row, float64(n), tier, word(state.String(), "REPLICA_STATE_"))
}

// Held says how many bytes the replicas on a tier have, how many of these are leased or
// pinned, and by how many leases.
func (s *Sample) Held(tier string, bytes, heldBytes int64, leases int) {
	s.sum(rowReplicaBytes.Row, float64(bytes), tier)
	s.sum(rowLeasedBytes.Row, float64(heldBytes), tier)
	s.sum(rowLeases.Row, float64(leases), tier)
}

// HSM says how many actions of HSM wait, and how many are in work.
func (s *Sample) HSM(waiting, working int) {
	s.sum(rowHSMWaiting.Row, float64(waiting))
	s.sum(rowHSMWorking.Row, float64(working))
}

// Pins says how many pins last.
func (s *Sample) Pins(n int) { s.sum(rowPins.Row, float64(n)) }

// Agent is how an agent is: the leads and batches that it has, and those that it would
// take now.
type Agent struct {
	Name                   string
	State                  datamovev1.AgentState
	Leads, Batches         int
	FreeLeads, FreeBatches int
}

// Agents says how every agent is. One that is not among them is forgotten.
func (s *Sample) Agents(all []Agent) {
	for _, state := range agentStates {
		s.sum(rowAgents.Row, 0, state)
	}
	for _, a := range all {
		up := 1.0
		if a.State == datamovev1.AgentState_AGENT_STATE_LOST {
			up = 0
		}
		s.sum(rowAgents.Row, 1, word(a.State.String(), "AGENT_STATE_"))
		s.sum(rowAgentUp.Row, up, a.Name)
		s.sum(rowSlotsUsed.Row, float64(a.Leads), a.Name, "lead")
		s.sum(rowSlotsUsed.Row, float64(a.Batches), a.Name, "batch")
		s.sum(rowSlotsFree.Row, float64(a.FreeLeads), a.Name, "lead")
		s.sum(rowSlotsFree.Row, float64(a.FreeBatches), a.Name, "batch")
	}
}

// Workers says how many worker processes there are, and how much memory they have.
func (s *Sample) Workers(n int, memoryBytes int64) {
	s.sum(rowWorkers.Row, float64(n))
	s.sum(rowWorkerMemory.Row, float64(memoryBytes))
}

// Ledger says how large the ledger is, what room its file system has, how many
// changes it has taken, and whether it takes no new work because its disk is full.
func (s *Sample) Ledger(sizeBytes, freeBytes int64, records uint64, full bool) {
	s.put(rowLedgerFull.Row, map[bool]float64{true: 1}[full])
	s.put(rowLedgerSize.Row, float64(sizeBytes))
	s.put(rowLedgerFree.Row, float64(freeBytes))
	s.put(rowLedgerRecords.Row, float64(records))
}

// AuditHead says the sequence number of the newest record of the audit log.
func (s *Sample) AuditHead(sequence uint64) { s.put(rowAuditHead.Row, float64(sequence)) }

// Certificate says how long a certificate is valid. Of several for one use, the one
// that ends first counts.
func (s *Sample) Certificate(use CertificateUse, from, until time.Time) {
	s.least(rowCertStart.Row, float64(from.Unix()), string(use))
	s.least(rowCertExpiry.Row, float64(until.Unix()), string(use))
}
