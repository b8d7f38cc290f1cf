package authz

import (
	agentv1 "datamove.dev/api/datamove/agent/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
)

// Method is what a method of the API does. The zero value is allowed to no caller.
type Method struct {
	Action string
	Owned  bool // it acts on what has an owner: Action has a .own and an .any
}

// methods has every method that is served, by its full name. One that is not here
// is denied.
var methods = map[string]Method{
	datamovev1.TaskService_SubmitTask_FullMethodName:  {"task.submit", false}, // and what its kind does, see OfKind
	datamovev1.TaskService_GetTask_FullMethodName:     {"task.read", true},
	datamovev1.TaskService_ListTasks_FullMethodName:   {"task.read", true},
	datamovev1.TaskService_WatchTask_FullMethodName:   {"task.read", true},
	datamovev1.TaskService_ExplainTask_FullMethodName: {"task.read", true},
	datamovev1.TaskService_PauseTask_FullMethodName:   {"task.pause", true},
	datamovev1.TaskService_ResumeTask_FullMethodName:  {"task.resume", true},
	datamovev1.TaskService_CancelTask_FullMethodName:  {"task.cancel", true},

	datamovev1.DatasetService_AddDataset_FullMethodName:    {"dataset.add", true},
	datamovev1.DatasetService_GetDataset_FullMethodName:    {"dataset.read", false},
	datamovev1.DatasetService_ListDatasets_FullMethodName:  {"dataset.read", false},
	datamovev1.DatasetService_ListReplicas_FullMethodName:  {"dataset.read", false},
	datamovev1.DatasetService_GetManifest_FullMethodName:   {"dataset.manifest", true},
	datamovev1.DatasetService_RemoveDataset_FullMethodName: {"dataset.remove", true},
	datamovev1.DatasetService_Stage_FullMethodName:         {"dataset.stage", false},
	datamovev1.DatasetService_Release_FullMethodName:       {"dataset.release", true},
	datamovev1.DatasetService_Purge_FullMethodName:         {"dataset.purge", false},
	datamovev1.DatasetService_AcquireLease_FullMethodName:  {"lease.take", false},
	datamovev1.DatasetService_RenewLease_FullMethodName:    {"lease.renew", true},
	datamovev1.DatasetService_DropLease_FullMethodName:     {"lease.drop", true},
	datamovev1.DatasetService_ListLeases_FullMethodName:    {"lease.read", false},
	datamovev1.DatasetService_Pin_FullMethodName:           {"pin.set", true},
	datamovev1.DatasetService_Unpin_FullMethodName:         {"pin.drop", true},
	datamovev1.DatasetService_ListPins_FullMethodName:      {"pin.read", false},

	datamovev1.TierService_ListTiers_FullMethodName:                  {"tier.read", false},
	datamovev1.AgentService_ListAgents_FullMethodName:                {"agent.list", false},
	datamovev1.AgentService_DrainAgent_FullMethodName:                {"agent.drain", false},
	datamovev1.AgentService_UndrainAgent_FullMethodName:              {"agent.drain", false},
	datamovev1.AgentService_ForgetAgent_FullMethodName:               {"agent.forget", false},
	datamovev1.AgentService_CreateJoinToken_FullMethodName:           {"agent.invite", false},
	datamovev1.CatalogService_ScanTier_FullMethodName:                {"catalog.scan", false},
	datamovev1.CatalogService_ListScans_FullMethodName:               {"tier.read", false},
	datamovev1.CatalogService_FindFiles_FullMethodName:               {"catalog.read", true},
	datamovev1.CatalogService_SumFiles_FullMethodName:                {"catalog.read", true},
	datamovev1.PolicyService_ListPolicies_FullMethodName:             {"policy.list", false},
	datamovev1.PolicyService_PlanPolicy_FullMethodName:               {"policy.plan", false},
	datamovev1.PolicyService_GetPlan_FullMethodName:                  {"policy.read", true},
	datamovev1.PolicyService_SimulatePolicy_FullMethodName:           {"policy.plan", false},
	datamovev1.PolicyService_ExplainFile_FullMethodName:              {"catalog.read", true},
	datamovev1.PolicyService_RunPlan_FullMethodName:                  {"policy.run", false},
	datamovev1.PolicyService_ListRuns_FullMethodName:                 {"policy.list", false},
	datamovev1.PolicyService_StopRun_FullMethodName:                  {"policy.run", false},
	datamovev1.PolicyService_UndoRun_FullMethodName:                  {"policy.run", false},
	datamovev1.UsageService_GetUsage_FullMethodName:                  {"usage.read", true},
	datamovev1.BurstService_ApplyBurst_FullMethodName:                {"burst.apply", true},
	datamovev1.BurstService_GetBurst_FullMethodName:                  {"burst.read", true},
	datamovev1.BurstService_ListBursts_FullMethodName:                {"burst.read", true},
	datamovev1.BurstService_FollowBurst_FullMethodName:               {"burst.apply", true},
	datamovev1.BurstService_AdjustAccount_FullMethodName:             {"burst.adjust", false},
	datamovev1.BurstService_GetAccounts_FullMethodName:               {"burst.read", true},
	datamovev1.AdminService_GetInfo_FullMethodName:                   {"service.info", false},
	datamovev1.AdminService_Backup_FullMethodName:                    {"admin.backup", false},
	datamovev1.AdminService_Reload_FullMethodName:                    {"admin.reload", false},
	datamovev1.AdminService_IssueIdentity_FullMethodName:             {"admin.identity", false},
	datamovev1.AdminService_RevokeIdentity_FullMethodName:            {"admin.identity", false},
	"/grpc.health.v1.Health/Check":                                   {"service.health", false},
	"/grpc.health.v1.Health/List":                                    {"service.health", false},
	"/grpc.health.v1.Health/Watch":                                   {"service.health", false},
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      {"service.reflect", false},
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": {"service.reflect", false},

	agentv1.EnrollService_Join_FullMethodName:          {"enroll.join", false},
	agentv1.EnrollService_Renew_FullMethodName:         {"enroll.renew", false},
	agentv1.LinkService_Attend_FullMethodName:          {"link.attend", false},
	agentv1.LinkService_Confirm_FullMethodName:         {"link.confirm", false},
	agentv1.LinkService_Finish_FullMethodName:          {"link.finish", false},
	agentv1.LinkService_Give_FullMethodName:            {"link.give", false},
	agentv1.LinkService_Reply_FullMethodName:           {"link.reply", false},
	agentv1.LinkService_Keep_FullMethodName:            {"link.keep", false},
	agentv1.LinkService_PutManifest_FullMethodName:     {"link.manifest", false},
	agentv1.LinkService_ReadManifest_FullMethodName:    {"link.manifest", false},
	agentv1.LinkService_PutWalk_FullMethodName:         {"link.walk", false},
	agentv1.LinkService_Follow_FullMethodName:          {"link.walk", false},
	agentv1.LinkService_TellCheckpoints_FullMethodName: {"link.walk", false},
	agentv1.LinkService_ReadItems_FullMethodName:       {"link.walk", false},
	agentv1.LinkService_ReadBurst_FullMethodName:       {"link.burst", false},
	agentv1.LinkService_KeepBurst_FullMethodName:       {"link.burst", false},
	agentv1.LinkService_Spend_FullMethodName:           {"link.burst", false},
	agentv1.LinkService_TellReal_FullMethodName:        {"link.walk", false},
}

// atNode are the methods that root of a node may call about what is meant for that node, whosever it is: see [Rules.MayAt].
var atNode = map[string]bool{datamovev1.TaskService_ListTasks_FullMethodName: true}

// OfMethod returns what the method of that full name does; the zero Method where
// there is none.
func OfMethod(full string) Method { return methods[full] }

// OfKind returns the permission that a task of that kind needs, which is that of the method that
// makes it; the zero Method where there is none.
func OfKind(k datamovev1.TaskKind) Method {
	kind := task.KindOf(k)
	return Method{kind.Action, kind.Owned}
}
