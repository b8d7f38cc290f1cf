package lustre

import "fmt"

// Reason says why one number of an [Advice] is what it is.
type Reason struct {
	What   string `json:"what"`            // the number: "stripe count"
	Value  string `json:"value"`           // as people write it: "8"
	Why    string `json:"why"`             // in a sentence
	Source string `json:"source"`          // the document that says so, or datamove itself
	Doubt  bool   `json:"doubt,omitempty"` // an administrator should look at it: something is full, not there, or not known
}

// The sources of what is advised. [fromUs] is what follows from the rest, or was chosen
// where no document says anything.
const (
	fromManual   = "Lustre Operations Manual, managing file layout and free space"
	fromDNE      = "Lustre Operations Manual, striped directories"
	fromWiki     = "wiki.lustre.org, Lustre Striping Best Practices, 2026-08"
	fromLfs      = "lfs-setstripe(1), Lustre 2.17"
	fromNERSC    = "NERSC documentation, striping on Cori scratch"
	fromOLCF     = "OLCF documentation, the default layout of Orion"
	fromHPE      = "HPE ClusterStor, trade-offs of striping"
	fromS3       = "Amazon S3 user guide, multipart upload limits"
	fromMeasured = "measured on Lustre 2.17.57"
	fromUs       = "datamove"
)

// because adds a reason.
func (a *advisor) because(what, value, source, why string, args ...any) {
	a.reasons = append(a.reasons, Reason{What: what, Value: value, Why: fmt.Sprintf(why, args...), Source: source})
}

// doubt adds a reason that an administrator should look at.
func (a *advisor) doubt(what, value, source, why string, args ...any) {
	a.because(what, value, source, why, args...)
	a.reasons[len(a.reasons)-1].Doubt = true
}

// sizeText is a number of bytes for people: exact in the largest unit that it is whole
// in, else rounded down to a tenth of one.
func sizeText(n int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	unit, whole, rest := 0, n, int64(0)
	for whole >= 1024 && unit < len(units)-1 {
		whole, rest, unit = whole/1024, whole%1024, unit+1
	}
	if rest == 0 {
		return fmt.Sprintf("%d %s", whole, units[unit])
	}
	return fmt.Sprintf("%d.%d %s", whole, rest*10/1024, units[unit])
}
