package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/bench/hardware"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// ceilingsFile is what ceilings prints as JSON.
type ceilingsFile struct {
	Schema   string             `json:"schema"` // ceilingsSchema
	Date     time.Time          `json:"date"`
	Ceilings []hardware.Ceiling `json:"ceilings"`
}

const ceilingsSchema = "datamove.ceilings/v1"

func ceilingsCommand() *cobra.Command {
	var o hardware.Options
	var dirs, links, buckets, osts []string
	var size, serve, output, beside, conf string
	c := &cobra.Command{
		Use:   "ceilings [flags]",
		Short: "measure what memory, checksum, disks and links can do at most, each alone",
		Long: "Measures memory and the checksum of this host, TCP with itself, each --dir (written and read past the page cache; metadata), each OST of --osts, each --s3 endpoint, and the link to each\n" +
			"--to, where \"datamove-bench ceilings --serve :5202\" has to run. What it makes in a --dir is removed at the end.\n\n" +
			"  datamove-bench ceilings --dir /local_nvme --to oss1:5202",
		Args: nothing,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if output != "table" && output != "json" {
				return usageError{fmt.Errorf("-o %s: must be table or json", output)}
			}
			if o.Size, err = units.ParseBytes(size); err != nil {
				return usageError{fmt.Errorf("--size %s: %w", size, err)}
			}
			if serve != "" {
				return serves(cmd.Context(), serve, cmd.ErrOrStderr())
			}
			if beside != "" {
				return besides(cmd, o, beside, links, output)
			}
			stores := make([]*places, len(buckets)) // a mistake is told before anything is measured
			for i, b := range buckets {
				if stores[i], err = bucketOf(b, conf); errors.Is(err, mover.ErrUsage) {
					err = usageError{err}
				}
				if err != nil {
					return err
				}
			}
			all, err := ceilings(cmd.Context(), o, dirs, links)
			for _, dir := range osts {
				var more []hardware.Ceiling
				if err == nil {
					more, err = ofOSTs(cmd.Context(), o, dir)
				}
				all = append(all, more...)
			}
			for i, b := range buckets {
				var more []hardware.Ceiling
				if err == nil {
					more, err = ofBucket(cmd.Context(), o, b, stores[i])
				}
				all = append(all, more...)
			}
			if errors.Is(err, mover.ErrUsage) {
				err = usageError{err}
			}
			if err != nil {
				return err
			}
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(ceilingsFile{ceilingsSchema, time.Now().UTC(), all})
			}
			_, err = io.WriteString(cmd.OutOrStdout(), ceilingsTable(all))
			return err
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := c.Flags()
	flags.StringSliceVar(&dirs, "dir", nil, "a folder on a disk, or file system, to measure")
	flags.StringSliceVar(&links, "to", nil, "HOST:PORT of a host to which the link is measured")
	flags.StringSliceVar(&osts, "osts", nil, "a folder on Lustre: each OST of it is measured, with a file that lies on no other")
	flags.StringSliceVar(&buckets, "s3", nil, "a bucket on the endpoint that is measured: s3://bucket/prefix, or TIER:path of the configuration")
	flags.StringVar(&conf, "config", "", "the configuration with tiers (default: that of datamove)")
	flags.StringVar(&serve, "serve", "", "ADDRESS:PORT at which those are answered that measure the link to this host, until it is interrupted")
	flags.StringVar(&beside, "beside", "", "a folder on a disk: that, TCP and the link to each --to, where iperf3 -s runs, too, are measured by turns with fio, dd and iperf3")
	flags.IntVar(&o.Runs, "runs", 5, "of each measurement")
	flags.DurationVar(&o.Time, "time", time.Second, "of a run, of memory, checksum and links")
	flags.StringVar(&size, "size", "1GiB", "of the file that is written and read in a --dir")
	flags.IntVar(&o.Files, "files", 10_000, "number of files for the metadata rates of a --dir")
	flags.IntVar(&o.Workers, "workers", 0, "at the same time; 0 is one for each processor, 8 at a disk and 4 streams of a link")
	flags.StringVarP(&output, "output", "o", "table", "table or json")
	return c
}

// besides measures by turns with other programs.
func besides(cmd *cobra.Command, o hardware.Options, dir string, links []string, output string) error {
	o.Dir = dir
	pairs, err := hardware.Beside(cmd.Context(), o, links...)
	if errors.Is(err, mover.ErrUsage) {
		err = usageError{err}
	}
	if err != nil {
		return err
	}
	if output == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(pairsFile{"datamove.ceilings-beside/v1", time.Now().UTC(), pairs})
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%-18s %-8s %8s %14s %14s  %s\n", "CEILING", "PROGRAM", "RATIO", "OURS", "THEIRS", "HOW")
	for _, p := range pairs {
		fmt.Fprintf(w, "%-18s %-8s %8.3f %14s %14s  %s\n", p.Name, p.Program, p.Ratio, gb(middle(p.Ours)/1e9), gb(middle(p.Theirs)/1e9), p.How)
	}
	return nil
}

// middle is the median.
func middle(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// pairsFile is what ceilings --beside prints as JSON.
type pairsFile struct {
	Schema string          `json:"schema"` // datamove.ceilings-beside/v1
	Date   time.Time       `json:"date"`
	Pairs  []hardware.Pair `json:"pairs"`
}

// serves answers those that measure the link to this host.
func serves(ctx context.Context, address string, say io.Writer) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return usageError{err}
	}
	fmt.Fprintf(say, "datamove-bench: answers at %s; every host that reaches it can use this link\n", l.Addr())
	return hardware.Serve(ctx, l)
}

func ceilings(ctx context.Context, o hardware.Options, dirs, links []string) (all []hardware.Ceiling, err error) {
	for _, one := range []func(context.Context, hardware.Options) (hardware.Ceiling, error){hardware.Memory, hardware.Hash} {
		c, err := one(ctx, o)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	more, err := hardware.Loopback(ctx, o)
	if err != nil {
		return nil, err
	}
	all = append(all, more...)
	for _, dir := range dirs {
		o := o
		o.Dir = dir
		if more, err = hardware.Disk(ctx, o); err != nil {
			return nil, err
		}
		for i := range more {
			more[i].How += ", in " + dir
		}
		all = append(all, more...)
	}
	for _, address := range links {
		if more, err = hardware.Link(ctx, "nic", address, o); err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

func ceilingsTable(all []hardware.Ceiling) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %14s %28s  %s\n", "CEILING", "MEDIAN", "RUNS", "HOW")
	for _, c := range all {
		rate := func(r float64) string {
			if c.Unit == "B/s" {
				return gb(r / 1e9)
			}
			return units.Count(int64(r)) + "/s"
		}
		fmt.Fprintf(&b, "%-18s %14s %28s  %s\n", c.Name, rate(c.Rate), rate(c.Lowest)+" to "+rate(c.Most), c.How)
	}
	return b.String()
}
