package compare

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"datamove.dev/bench/result"
)

// tookFio adds up the phases that fio reports: a group of jobs that writes, and one that reads.
func tookFio(file string, bytes int64) (took time.Duration, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	type phase struct {
		Bytes  int64 `json:"io_bytes"`
		Millis int64 `json:"runtime"`
	}
	var report struct {
		Jobs []struct{ Write, Read phase }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return 0, fmt.Errorf("the report of fio: %w", err)
	}
	var wrote, read int64
	for _, j := range report.Jobs {
		wrote, read = wrote+j.Write.Bytes, read+j.Read.Bytes
		took += time.Duration(j.Write.Millis+j.Read.Millis) * time.Millisecond
	}
	if wrote != bytes || read != bytes {
		return 0, fmt.Errorf("fio has written %d bytes and read %d, and not %d", wrote, read, bytes)
	}
	return took, nil
}

// tookOurs adds up the phases of a record: one that writes, and one that reads.
func tookOurs(file string, bytes int64) (took time.Duration, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r, err := result.Read(f)
	if err != nil {
		return 0, err
	}
	for _, p := range r.Phases {
		if p.Failed != "" || p.Last.Bytes != bytes {
			return 0, fmt.Errorf("%s of datamove-bench: %d bytes, and not %d: %s", p.Name, p.Last.Bytes, bytes, p.Failed)
		}
		took += time.Duration(p.Last.Seconds * float64(time.Second))
	}
	if len(r.Phases) != 2 {
		return 0, fmt.Errorf("the record of datamove-bench has %d phases", len(r.Phases))
	}
	return took, nil
}

// tookElbencho adds up what its file of results says of writing and reading: a line for each phase, its time until the last
// thread was done.
func tookElbencho(file string) (took time.Duration, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	rows, err := r.ReadAll()
	if err != nil {
		return 0, fmt.Errorf("the results of elbencho: %w", err)
	}
	phases := map[string]bool{}
	for i, row := range rows {
		operation, millis := cell(rows[0], row, "operation"), cell(rows[0], row, "time ms [last]")
		if i == 0 || operation != "WRITE" && operation != "READ" {
			continue
		}
		n, err := strconv.ParseInt(millis, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the results of elbencho: %s took %q ms", operation, millis)
		}
		took += time.Duration(n) * time.Millisecond
		phases[operation] = true
	}
	if len(phases) != 2 {
		return 0, fmt.Errorf("the results of elbencho have no lines of WRITE and READ")
	}
	return took, nil
}

// cell is what row has in the column of that name.
func cell(header, row []string, name string) string {
	for i, h := range header {
		if h == name && i < len(row) {
			return row[i]
		}
	}
	return ""
}

// tookIOR adds up the total times in the table of results that ior prints: "write" and "read", the time before the last column.
func tookIOR(file string) (took time.Duration, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	results, _, _ := strings.Cut(string(text), "Summary of all tests")
	phases := map[string]bool{}
	for line := range strings.Lines(results) {
		columns := strings.Fields(line)
		if len(columns) < 9 || columns[0] != "write" && columns[0] != "read" {
			continue
		}
		seconds, err := strconv.ParseFloat(columns[len(columns)-2], 64)
		if err != nil {
			return 0, fmt.Errorf("the results of ior: %w in %q", err, strings.TrimSpace(line))
		}
		took += time.Duration(seconds * float64(time.Second))
		phases[columns[0]] = true
	}
	if len(phases) != 2 {
		return 0, fmt.Errorf("the results of ior have no lines of write and read: %s", lastLine(string(text)))
	}
	return took, nil
}

var warpAverage = regexp.MustCompile(`(?m)^ ?\* Average: ([0-9.]+) MiB/s`)

// tookWarp is how long so many bytes take at the average rate of an operation, which warp prints below its name.
func tookWarp(file, op string, bytes int64) (time.Duration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	op = strings.ToUpper(op)
	at := regexp.MustCompile(`(?m)^(Operation|Report): ` + op + `\b`).FindIndex(text)
	if at == nil {
		return 0, fmt.Errorf("%s has no report of %s: %s", filepath.Base(file), op, lastLine(string(text)))
	}
	average := warpAverage.FindSubmatch(text[at[0]:])
	if average == nil {
		return 0, fmt.Errorf("%s has no average of %s: %s", filepath.Base(file), op, lastLine(string(text)))
	}
	rate, err := strconv.ParseFloat(string(average[1]), 64)
	if err != nil || rate <= 0 {
		return 0, fmt.Errorf("%s was done at %s MiB/s", op, average[1])
	}
	return time.Duration(float64(bytes) / (rate * (1 << 20)) * float64(time.Second)), nil
}
