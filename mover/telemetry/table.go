package telemetry

import "slices"

// Row is one metric as it is documented.
type Row struct {
	Name    string
	Type    string   // counter, gauge or histogram
	Unit    string   // seconds, bytes, or what is counted
	From    string   // the component that exports it: coordinator, agent, or both
	Labels  []string // in the order of their values
	Meaning string   // also the HELP of a scrape

	buckets []float64
	asked   bool // for each scrape, in contrast to counted
}

// Table returns every metric of ours, as it is documented, in the order of the
// documentation.
func Table() []Row { return slices.Clone(table) }

// What a row can be fed by: events are counted, facts are asked for.
type (
	counter   struct{ *Row } // counted when it happens
	histogram struct{ *Row } // measured when it happens
	gauge     struct{ *Row } // asked for by a scrape
	reading   struct{ *Row } // a counter of the kernel's, asked for by a scrape
)

// table holds what the lines below define.
var table []Row

// define adds a line to the table.
func define(r Row) *Row {
	table = append(table, r)
	return &r
}

func newCounter(name, unit, from, meaning string, labels ...string) counter {
	return counter{define(Row{Name: name, Type: "counter", Unit: unit, From: from, Labels: labels, Meaning: meaning})}
}

func newGauge(name, unit, from, meaning string, labels ...string) gauge {
	return gauge{define(Row{Name: name, Type: "gauge", Unit: unit, From: from, Labels: labels, Meaning: meaning, asked: true})}
}

func newReading(name, unit, from, meaning string, labels ...string) reading {
	return reading{define(Row{Name: name, Type: "counter", Unit: unit, From: from, Labels: labels, Meaning: meaning, asked: true})}
}

func newHistogram(buckets []float64, name, from, meaning string, labels ...string) histogram {
	return histogram{define(Row{Name: name, Type: "histogram", Unit: "seconds", From: from, Labels: labels, Meaning: meaning, buckets: buckets})}
}

// Buckets in seconds: of calls, of waits that a person or a job has to sit through,
// and of whole tasks. 0.1 is the promised time to the first byte.
var (
	callBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	waitBuckets = []float64{.005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200, 43200}
	taskBuckets = []float64{.1, 1, 10, 60, 300, 900, 3600, 14400, 43200, 86400, 259200, 604800}
)

// The components that export a metric.
const (
	coordinator = "coordinator"
	agent       = "agent"
	both        = "both"
)

// Tasks.
var (
	rowTasks          = newGauge("datamove_tasks", "tasks", coordinator, "Tasks in the ledger.", "class", "state")
	rowTasksSubmitted = newCounter("datamove_tasks_submitted_total", "tasks", coordinator, "Tasks that were accepted.", "class")
	rowTasksEnded     = newCounter("datamove_tasks_ended_total", "tasks", coordinator, "Tasks that came to their end.", "class", "state")
	rowTaskDuration   = newHistogram(taskBuckets, "datamove_task_duration_seconds", coordinator, "Time from a task's first lead to its end.", "class", "state")
	rowQueueWait      = newHistogram(waitBuckets, "datamove_task_queue_wait_seconds", coordinator, "Time that a task waited in the queue before an agent led it for the first time.", "class")
	rowFirstByte      = newHistogram(waitBuckets, "datamove_task_first_byte_seconds", coordinator, "Time from the submission of a task to its first byte.", "class")
	rowOldestQueued   = newGauge("datamove_task_oldest_queued_seconds", "seconds", coordinator, "Age of the task that waits in the queue for the longest time; 0 when none waits.", "class")
	rowWaitingForRoom = newGauge("datamove_tasks_waiting_for_room", "tasks", coordinator, "Running tasks that pause because their target is full, by its tier.", "tier")
	rowLeadsLost      = newCounter("datamove_leads_lost_total", "leads", coordinator, "Leads that ended because their agent was not heard of, or could not go on.")
	rowBatches        = newGauge("datamove_batches", "batches", coordinator, "Batches that wait for an agent, and those that one has.", "state")
	rowBatchEvents    = newCounter("datamove_batch_events_total", "batches", coordinator, "What became of batches: given by a lead, leased to an agent, done, requeued, stolen from a slow agent, taken over from a dead one.", "event")
)

// What is moved.
var (
	rowMovedBytes    = newCounter("datamove_moved_bytes_total", "bytes", agent, "Bytes of the files that were moved, clones too.", "source", "target", "class")
	rowMovedFiles    = newCounter("datamove_moved_files_total", "files", agent, "Files that were moved.", "source", "target", "class")
	rowProjectBytes  = newCounter("datamove_project_moved_bytes_total", "bytes", agent, "Bytes of the files that were moved for a project.", "class", "project")
	rowPeerBytes     = newCounter("datamove_peer_read_bytes_total", "bytes", agent, "Bytes that came from other nodes, and not from the source of their task.", "class")
	rowTierBytes     = newCounter("datamove_tier_bytes_total", "bytes", agent, "Bytes that were read from and written to a tier; its rate is the bandwidth.", "tier", "direction")
	rowTierOps       = newCounter("datamove_tier_operations_total", "operations", agent, "Metadata operations and requests on a tier, as the mover asks for them; its rate is the load.", "tier", "op")
	rowRetries       = newCounter("datamove_retries_total", "calls", agent, "Calls that failed for a reason that passes, and were tried again.", "tier")
	rowErrors        = newCounter("datamove_errors_total", "entries", agent, "Entries that failed for good, by the kind of error.", "kind")
	rowMismatches    = newCounter("datamove_verification_mismatches_total", "files", agent, "Files with a content on this tier that is not the expected one.", "tier")
	rowRemoved       = newCounter("datamove_removed_entries_total", "entries", agent, "Entries that were removed.", "tier")
	rowRoomPauses    = newCounter("datamove_room_pauses_total", "pauses", agent, "Times that a task paused because a tier was full.", "tier")
	rowLimitWait     = newCounter("datamove_limit_wait_seconds_total", "seconds", agent, "Time that transfers waited for a bandwidth limit. Where both ends have one it counts at both.", "endpoint", "direction")
	rowWorkers       = newGauge("datamove_worker_processes", "processes", agent, "Worker processes of this agent.")
	rowWorkerMemory  = newGauge("datamove_worker_memory_bytes", "bytes", agent, "Memory of the worker processes of this agent.")
	rowCacheHits     = newReading("datamove_client_cache_hits_total", "pages", agent, "Pages that were in the client's cache when they were read (Lustre).", "tier")
	rowCacheMisses   = newReading("datamove_client_cache_misses_total", "pages", agent, "Pages that were not in the client's cache when they were read (Lustre).", "tier")
	rowClientRead    = newReading("datamove_client_read_bytes_total", "bytes", agent, "Bytes that programs of this node have read from the mounted tier, from its cache too (Lustre, NFS).", "tier")
	rowClientFetched = newReading("datamove_client_fetched_bytes_total", "bytes", agent, "Bytes that this node has fetched from the server of the tier (NFS).", "tier")
)

// The copytool of a Lustre.
var (
	rowHSMActions = newCounter("datamove_hsm_actions_total", "actions", agent, "Actions of HSM that were handed to this node and came to their end (Lustre).", "action", "result")
	rowHSMBytes   = newCounter("datamove_hsm_bytes_total", "bytes", agent, "Bytes that were archived and restored for HSM (Lustre).", "action")
	rowHSMWaiting = newGauge("datamove_hsm_waiting_actions", "actions", agent, "Actions of HSM that this node holds and has not begun; more may wait in the kernel and on the MDT (Lustre).")
	rowHSMWorking = newGauge("datamove_hsm_working_actions", "actions", agent, "Actions of HSM that this node works on (Lustre).")
)

// Tiers and what is on them.
var (
	rowTierTotal        = newGauge("datamove_tier_total_bytes", "bytes", coordinator, "Size of a tier; of a node-local one on each agent.", "tier", "agent")
	rowTierFree         = newGauge("datamove_tier_free_bytes", "bytes", coordinator, "Room that is left on a tier.", "tier", "agent")
	rowTierAgents       = newGauge("datamove_tier_agents", "agents", coordinator, "Agents that are ready and reach a tier.", "tier")
	rowReplicas         = newGauge("datamove_replicas", "replicas", coordinator, "Replicas of datasets on a tier.", "tier", "state")
	rowReplicaBytes     = newGauge("datamove_replica_bytes", "bytes", coordinator, "Size of the replicas on a tier.", "tier")
	rowLeasedBytes      = newGauge("datamove_leased_bytes", "bytes", coordinator, "Size of the replicas on a tier that are leased or pinned, and so can not be evicted.", "tier")
	rowLeases           = newGauge("datamove_leases", "leases", coordinator, "Leases that last.", "tier")
	rowPins             = newGauge("datamove_pins", "pins", coordinator, "Pins that last.")
	rowEvictedBytes     = newCounter("datamove_evicted_bytes_total", "bytes", coordinator, "Size of the replicas that were evicted to make room.", "tier")
	rowEvictionsBlocked = newCounter("datamove_evictions_blocked_total", "evictions", coordinator, "Times that a tier was above its watermark and nothing on it could be evicted.", "tier")
)

// The catalog, and policies at work.
var (
	rowCatalogTime    = newGauge("datamove_catalog_timestamp_seconds", "seconds", coordinator, "Of when the catalog of a tier is that the configuration has scanned or followed; 0 is none.", "tier", "agent")
	rowCatalogFiles   = newGauge("datamove_catalog_files", "files", coordinator, "Files of a tier at its last scan.", "tier", "agent")
	rowCatalogFeed    = newGauge("datamove_catalog_feed_up", "1", coordinator, "1 while the change feed of a tier works, 0 while it does not although the configuration has one.", "tier", "agent")
	rowPolicyRuns     = newCounter("datamove_policy_runs_total", "runs", coordinator, "Runs of policies that came to their end.")
	rowPolicyStopped  = newCounter("datamove_policy_runs_stopped_total", "runs", coordinator, "Runs of policies that were stopped before, or did not begin: by errors, limits, stale facts, for want of approval, or by an operator.")
	rowPolicyFiles    = newCounter("datamove_policy_files_total", "files", coordinator, "Files that runs of policies have dealt with.")
	rowPolicyBytes    = newCounter("datamove_policy_bytes_total", "bytes", coordinator, "Their bytes.")
	rowPolicyFailures = newCounter("datamove_policy_failed_files_total", "files", coordinator, "Files that runs of policies could not deal with.")
)

// Checkpoints that policies bring from tier to tier, where a rule says how long they may wait (rpo).
var (
	rowCheckpointWaits     = newGauge("datamove_tier_checkpoint_waiting_seconds", "seconds", coordinator, "Age of the oldest checkpoint on a tier that is complete, is to come to the target, and is newer than what is verified there; 0 is none.", "source", "target")
	rowCheckpointObjective = newGauge("datamove_tier_checkpoint_objective_seconds", "seconds", coordinator, "How long it may wait, as the policies say.", "source", "target")
)

// Agents.
var (
	rowAgents    = newGauge("datamove_agents", "agents", coordinator, "Agents by state.", "state")
	rowAgentUp   = newGauge("datamove_agent_up", "1", coordinator, "1 for an agent that is heard of, 0 for one that is lost.", "agent")
	rowSlotsUsed = newGauge("datamove_agent_slots_used", "slots", coordinator, "Leads and batches that an agent has.", "agent", "work")
	rowSlotsFree = newGauge("datamove_agent_slots_free", "slots", coordinator, "Leads and batches that an agent would take now.", "agent", "work")
)

// The service itself.
var (
	rowLedgerCommit  = newHistogram(callBuckets, "datamove_ledger_commit_seconds", coordinator, "Time until a change was on stable storage.")
	rowLedgerErrors  = newCounter("datamove_ledger_errors_total", "changes", coordinator, "Changes that the ledger could not store.")
	rowLedgerSize    = newGauge("datamove_ledger_size_bytes", "bytes", coordinator, "Size of the ledger on disk.")
	rowLedgerFree    = newGauge("datamove_ledger_free_bytes", "bytes", coordinator, "Room that is left on the ledger's file system.")
	rowLedgerFull    = newGauge("datamove_ledger_full", "1", coordinator, "1 while no new work is taken because the disk of the ledger is full, else 0.")
	rowLedgerRecords = newGauge("datamove_ledger_records", "records", coordinator, "Changes that the ledger has taken since it was made.")
	rowAuditRecords  = newCounter("datamove_audit_records_total", "records", coordinator, "Decisions that were written to the audit log.")
	rowAuditFailures = newCounter("datamove_audit_failures_total", "records", coordinator, "Decisions that could not be written to the audit log.")
	rowAuditHead     = newGauge("datamove_audit_head_sequence", "1", coordinator, "Sequence number of the newest record of the audit log.")
	rowRequests      = newCounter("datamove_grpc_requests_total", "requests", coordinator, "Requests that were answered, streams when they ended.", "method", "code")
	rowRequestTime   = newHistogram(callBuckets, "datamove_grpc_request_seconds", coordinator, "Time to answer a request; streams are not measured.", "method")
	rowInFlight      = newGauge("datamove_grpc_requests_in_flight", "requests", coordinator, "Requests and streams that are open.", "method")
	rowDenied        = newCounter("datamove_denied_requests_total", "requests", coordinator, "Requests that were denied, by reason.", "method", "reason")
	rowCertStart     = newGauge("datamove_certificate_start_timestamp_seconds", "seconds", both, "When a certificate began to be valid.", "use")
	rowCertExpiry    = newGauge("datamove_certificate_expiry_timestamp_seconds", "seconds", both, "When a certificate ends to be valid.", "use")
	rowReloadSuccess = newGauge("datamove_config_reload_success", "1", both, "1 when the configuration was read without a mistake at the last try, else 0.")
	rowReloadTime    = newGauge("datamove_config_reload_timestamp_seconds", "seconds", both, "When the configuration that is in use was read.")
	rowClock         = newGauge("datamove_clock_timestamp_seconds", "seconds", both, "The clock of this machine.")
	rowBuild         = newGauge("datamove_build_info", "1", both, "Always 1; the labels say what runs.", "version", "go")
	rowDropped       = newGauge("datamove_metrics_dropped_series", "series", both, "Series that were left out of this scrape because there were too many.")
)
