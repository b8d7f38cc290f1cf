// Package doctor looks at what a copy depends on, and says what is wrong and how
// to mend it: the configuration, file systems, S3 endpoints, limits of the process.
//
// A check is a small function that returns a [Finding], or several. It never fails
// itself: what keeps it from looking is a finding. Checks leave nothing behind;
// what they write to try a place has a temporary name that walks ignore, so that
// even a doctor that is killed does no harm.
//
// Which places to look at, and how findings are printed, is left to the command.
// TestEveryFaultIsNamed seeds faults, and wants each found with its mend.
package doctor

import (
	"os"

	"datamove.dev/mover"
)

// Status says how a check went.
type Status string

// The states of a check.
const (
	Pass Status = "pass"
	Warn Status = "warn" // it works, but not as well as it could
	Fail Status = "fail" // a copy will not work
)

// Finding is the result of one check.
type Finding struct {
	Subject string `json:"subject"` // what was looked at: a file, a folder, an endpoint
	Check   string `json:"check"`   // what of it: "space", "clock"
	Status  Status `json:"status"`
	Detail  string `json:"detail"`         // what was seen
	Mend    string `json:"mend,omitempty"` // what to do; "" when nothing is wrong
}

func pass(subject, check, detail string) Finding {
	return Finding{Subject: subject, Check: check, Status: Pass, Detail: detail}
}

func warn(subject, check, detail, mend string) Finding {
	return Finding{subject, check, Warn, detail, mend}
}

func fail(subject, check, detail, mend string) Finding {
	return Finding{subject, check, Fail, detail, mend}
}

// Failed reports whether any of the findings is a failure.
func Failed(findings []Finding) bool {
	for _, f := range findings {
		if f.Status == Fail {
			return true
		}
	}
	return false
}

// probeName is a name for what a check writes. Walks ignore it, and a later run on
// the same place removes it.
func probeName(n uint64) string {
	return mover.WriterID{Task: "doctor", Epoch: uint64(os.Getpid())}.TempName(n)
}
