package telemetry

import (
	"strings"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// TaskSubmitted counts a task that was accepted.
func (m *Metrics) TaskSubmitted(c datamovev1.TaskClass) { m.add(rowTasksSubmitted, 1, class(c)) }

// TaskLed counts a task that an agent leads now, after it waited in the queue.
func (m *Metrics) TaskLed(c datamovev1.TaskClass, waited time.Duration) {
	m.observe(rowQueueWait, waited, class(c))
}

// TaskFirstByte records how long after its submission a task moved its first byte.
func (m *Metrics) TaskFirstByte(c datamovev1.TaskClass, after time.Duration) {
	m.observe(rowFirstByte, after, class(c))
}

// TaskEnded counts a task that came to its end, so long after its first lead; less than
// nothing says that it had none.
func (m *Metrics) TaskEnded(c datamovev1.TaskClass, state datamovev1.TaskState, took time.Duration) {
	m.add(rowTasksEnded, 1, class(c), taskState(state))
	if took < 0 {
		return
	}
	m.observe(rowTaskDuration, took, class(c), taskState(state))
}

// LeadLost counts a lead that ended without a word of its agent.
func (m *Metrics) LeadLost() { m.add(rowLeadsLost, 1) }

// Batches counts what became of batches.
func (m *Metrics) Batches(event BatchEvent, n int) { m.add(rowBatchEvents, float64(n), string(event)) }

// Flow is from where to where a task moves, and the class that says how urgent it is.
type Flow struct {
	Source, Target string // tiers; outside of them it is "other"
	Class          datamovev1.TaskClass
}

// Moved counts files that were moved since the last call, and their bytes.
func (m *Metrics) Moved(f Flow, files, bytes int64) {
	m.add(rowMovedFiles, float64(files), f.Source, f.Target, class(f.Class))
	m.add(rowMovedBytes, float64(bytes), f.Source, f.Target, class(f.Class))
}

// Transferred counts bytes that were read from a tier, or written to it.
func (m *Metrics) Transferred(tier string, d Direction, bytes int64) {
	m.add(rowTierBytes, float64(bytes), tier, string(d))
}

// Operations counts metadata operations and requests on a tier.
func (m *Metrics) Operations(tier string, op Op, n int64) {
	m.add(rowTierOps, float64(n), tier, string(op))
}

// Retried counts calls that were tried again.
func (m *Metrics) Retried(tier string, n int64) { m.add(rowRetries, float64(n), tier) }

// Failed counts an entry that failed for good. Nil is none.
func (m *Metrics) Failed(err error) {
	if err != nil {
		m.FailedKind(mover.KindName(err), 1)
	}
}

// FailedKind counts entries that failed for good in another process; kind is as
// [mover.KindName] names it.
func (m *Metrics) FailedKind(kind string, n int64) {
	m.add(rowErrors, float64(n), strings.ToLower(kind))
}

// Mismatched counts files with content on a tier that was not what it should be.
func (m *Metrics) Mismatched(tier string, n int64) { m.add(rowMismatches, float64(n), tier) }

// Removed counts entries that were removed from a tier.
func (m *Metrics) Removed(tier string, n int64) { m.add(rowRemoved, float64(n), tier) }

// PausedForRoom counts a task that waits because a tier is full.
func (m *Metrics) PausedForRoom(tier string) { m.add(rowRoomPauses, 1, tier) }

// LimitWaited counts time that transfers waited for a bandwidth limit of an endpoint.
func (m *Metrics) LimitWaited(endpoint string, d Direction, waited time.Duration) {
	m.add(rowLimitWait, waited.Seconds(), endpoint, string(d))
}

// FromPeers counts bytes that other nodes have given, since the last call.
func (m *Metrics) FromPeers(c datamovev1.TaskClass, bytes int64) {
	m.add(rowPeerBytes, float64(bytes), class(c))
}

// MovedFor counts bytes of files that were moved for a project.
func (m *Metrics) MovedFor(c datamovev1.TaskClass, project string, bytes int64) {
	m.add(rowProjectBytes, float64(bytes), class(c), project)
}

// HSMEnded counts an action of HSM that came to its end, and the bytes that it moved.
func (m *Metrics) HSMEnded(a HSMAction, bytes int64, err error) {
	result := hsmDone
	if err != nil {
		result = hsmFailed
	}
	m.add(rowHSMActions, 1, string(a), result)
	m.add(rowHSMBytes, float64(bytes), string(a))
}

// Evicted counts the bytes of a replica that was removed to make room.
func (m *Metrics) Evicted(tier string, bytes int64) { m.add(rowEvictedBytes, float64(bytes), tier) }

// PolicyRan counts a run of a policy, and what it has done.
func (m *Metrics) PolicyRan(stopped bool, files, bytes, failed int64) {
	if stopped {
		m.add(rowPolicyStopped, 1)
	} else {
		m.add(rowPolicyRuns, 1)
	}
	m.add(rowPolicyFiles, float64(files))
	m.add(rowPolicyBytes, float64(bytes))
	m.add(rowPolicyFailures, float64(failed))
}

// EvictionBlocked counts a try to make room where nothing could be evicted.
func (m *Metrics) EvictionBlocked(tier string) { m.add(rowEvictionsBlocked, 1, tier) }

// LedgerCommitted counts a change that was to be stored: how long it took, and
// whether it failed.
func (m *Metrics) LedgerCommitted(took time.Duration, err error) {
	if err != nil {
		m.add(rowLedgerErrors, 1)
		return
	}
	m.observe(rowLedgerCommit, took)
}

// Audited counts a decision that was to be written to the audit log.
func (m *Metrics) Audited(err error) {
	if err != nil {
		m.add(rowAuditFailures, 1)
		return
	}
	m.add(rowAuditRecords, 1)
}

// Denied counts a request that was denied; method is as gRPC names it.
func (m *Metrics) Denied(method string, reason Denial) {
	m.add(rowDenied, 1, strings.TrimPrefix(method, "/"), string(reason))
}

// Reloaded remembers whether the configuration could be read, and when.
func (m *Metrics) Reloaded(err error) {
	if err != nil {
		m.keep(rowReloadSuccess, 0)
		return
	}
	m.keep(rowReloadSuccess, 1)
	m.keep(rowReloadTime, float64(time.Now().UnixMilli())/1000)
}
