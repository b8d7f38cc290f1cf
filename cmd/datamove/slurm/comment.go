package slurm

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"datamove.dev/mover"
)

const (
	commentMost  = 2048 // bytes of a comment to which something is added
	commentWidth = 4096 // bytes that squeue prints of one
)

// comment adds to the AdminComment of a job, which SlurmUser may, and keeps what others have written there. slurmctld changes nothing of a job that has ended: then it is
// that of the accounting, where there is one.
func comment(ctx context.Context, job, text string, ended bool) error {
	read := []string{"squeue", "--noheader", "--states=all", "--jobs=" + job, fmt.Sprintf("--Format=admin_comment:%d", commentWidth)}
	if ended {
		conf, err := slurmSays(ctx, "scontrol", "show", "config")
		if err != nil || !accounts(conf) {
			return err
		}
		read = []string{"sacct", "--noheader", "--allocations", "--parsable2", "--jobs=" + job, "--format=AdminComment"}
	}
	was, err := slurmSays(ctx, read...)
	if err != nil {
		return err
	}
	next, err := commented(was, text)
	if err != nil {
		return err
	}
	write := []string{"scontrol", "update", "JobId=" + job, "AdminComment=" + next}
	if ended {
		write = []string{"sacctmgr", "--immediate", "--quiet", "modify", "job", "where", "jobid=" + job, "set", "AdminComment=" + next}
	}
	_, err = slurmSays(ctx, write...)
	return err
}

// accounts says whether a configuration, as scontrol prints it, has an accounting in which a job can be changed.
func accounts(conf string) bool {
	for line := range strings.Lines(conf) {
		key, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(key) == "AccountingStorageType" {
			return strings.TrimSpace(value) == "accounting_storage/slurmdbd"
		}
	}
	return false
}

// commented is a comment, as Slurm prints it, with a text behind it.
func commented(was, text string) (string, error) {
	was = strings.TrimSpace(was)
	if was == "" || was == "(null)" || was == "N/A" {
		return text, nil
	}
	if len(was)+len(text) > commentMost {
		return "", fmt.Errorf("%w: the comment has %d bytes already", mover.ErrFull, len(was))
	}
	return was + "; " + text, nil
}

// slurmSays runs a command of Slurm's.
func slurmSays(ctx context.Context, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var wrong strings.Builder
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err == nil && strings.Contains(wrong.String(), "Invalid job format") { // squeue ends well then, and prints nothing
		err = mover.ErrUnsupported
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", command[0], err, mover.Printable(strings.TrimSpace(wrong.String())))
	}
	return string(out), nil
}
