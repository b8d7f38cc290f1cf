package slurm

import (
	"slices"
	"testing"
)

func TestParseJob(t *testing.T) {
	const text = `JobId=7 ArrayJobId=5 ArrayTaskId=2 JobName=a job
   UserId=anna(5001) GroupId=anna(5001) MCS_label=N/A
   Priority=0 Nice=0 Account=(null) QOS=(null)
   JobState=PENDING Reason=burst_buffer/lua:_slurm_bb_data_in:_a_=_b Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   Partition=all AllocNode:Sid=control:0
   NodeList=
   Command=(null)
   Comment=two words JobState=FAKED 
   SystemComment=11/24/26 10:47:04 burst_buffer/lua: data_in: two
lines of x=y 
   BurstBuffer=#DATAMOVE one
#DATAMOVE two

`
	j, err := parseJob(text)
	want := Job{ID: "7", ArrayID: "5", ArrayTask: "2", Name: "a job", State: "PENDING", Reason: "burst_buffer/lua:_slurm_bb_data_in:_a_=_b", Priority: "0", Restarts: "2", Exit: "0:0",
		Comment: "two words JobState=FAKED", SystemComment: "11/24/26 10:47:04 burst_buffer/lua: data_in: two\nlines of x=y", BurstBuffer: "#DATAMOVE one\n#DATAMOVE two"}
	if err != nil || j != want {
		t.Errorf("%+v, %v, want\n%+v", j, err, want)
	}
	if _, err := parseJob("slurm_load_jobs error: Invalid job id specified\n"); err == nil {
		t.Error("there is no job")
	}
}

func TestParseNodes(t *testing.T) {
	got := parseNodes("NodeName=node1 Arch=x86_64 State=IDLE+DRAIN ThreadsPerCore=1 Reason=Prolog error = x [slurm@2026-11-24T11:04:32]\nNodeName=node2 State=IDLE Comment=a b\n\n")
	want := []Node{{"node1", "IDLE+DRAIN", "Prolog error = x [slurm@2026-11-24T11:04:32]"}, {"node2", "IDLE", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
