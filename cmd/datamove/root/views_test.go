package root

import (
	"time"

	"datamove.dev/lustre"
)

// What tests read of the JSON that commands print.
type (
	adviceJSON struct {
		lustre.Advice
		Commands []string `json:"commands"`
		Lfs      []string `json:"lfs"`
	}
	layoutJSON struct {
		Layout lustre.Layout `json:"layout"`
	}
	quotaJSON struct {
		LeftBytes  *int64     `json:"left_bytes"`
		LeftFiles  *int64     `json:"left_files"`
		BytesUntil *time.Time `json:"bytes_until"`
		FilesUntil *time.Time `json:"files_until"`
		Targets    []struct {
			Pool bool `json:"pool"`
			Over bool `json:"over"`
		} `json:"targets"`
	}
	reportJSON struct {
		Schema   string `json:"schema"`
		Task     string `json:"task"`
		Source   string `json:"source"`
		Target   string `json:"target"`
		Files    int64  `json:"files"`
		Exit     int    `json:"exit"`
		Failures []struct {
			Name64 []byte `json:"name64"`
			Exit   int    `json:"exit"`
		} `json:"failures"`
	}
	stageJSON struct {
		Schema  string `json:"schema"`
		Replica *struct {
			Location string `json:"location"`
		} `json:"replica"`
		Lease *struct {
			ID string `json:"id"`
		} `json:"lease"`
		Report *reportJSON `json:"report"`
	}
	taskJSON struct {
		Why    string      `json:"why"`
		Exit   *int32      `json:"exit"`
		Report *reportJSON `json:"report"`
	}
)
