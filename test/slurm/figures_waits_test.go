package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// eitherProlog is that of a site that has both: of a job with the comment rsync:SET it runs rsync, as sites do without us.
const eitherProlog = `#!/bin/sh
case $SLURM_JOB_COMMENT in
rsync:*) exec /usr/bin/rsync -a "rsync://` + storeAddress + `/data/${SLURM_JOB_COMMENT#rsync:}/" /local_nvme/rsync/ ;;
esac
exec /usr/local/bin/datamove hook prolog
`

// notingProlog notes when a job has got its nodes. It is run then, beside what else is done for the job.
const notingProlog = `#!/bin/sh
/bin/date +%s.%N >/project/allocated-$SLURM_JOB_ID
exec /usr/local/bin/datamove hook prolog-slurmctld
`

const (
	storeAddress = "10.98.0.253"
	storeMbit    = 100 // of each link, in each direction
	setFiles     = 200
)

// storeConf has the store, and no tier that all nodes see.
var storeConf = "tiers:\n" + storeTier(storeAddress) + `
  scratch: {level: hot, path: /local_nvme, ephemeral: true, node_local: true}
projects:
  vision: {roots: ["store:", "scratch:"], members: [anna]}
roles:
  slurm: {members: [slurm], may: [person.act]}
slurm: {scratch: scratch}
`

func needRsync(t *testing.T) {
	t.Helper()
	for _, name := range []string{"rsync", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			loopfs.Skip(t, "needs "+name+": test/setup installs it")
		}
	}
}

// waits measures for how long nodes are a job's and wait for its data.
func (f *figures) waits() {
	sizes := []int{1, 2, 4, 8}
	bytes := f.of(80_000_000, 2_000_000) / setFiles * setFiles
	f.store(sizes, bytes)
	f.shape()
	f.say(`
## What a job waits for

From the allocation (PrologSlurmctld is started) to the first line of the script that runs on all of its nodes, by srun, times the nodes: seconds for which they are the
job's, and idle. And what left the store, as its interface counts it, by the size of the dataset: %d files, %.0f MB. The store is a machine of its own, with an S3 server
and an rsync daemon over the same files; its link and that of each node let through %d Mbit/s in each direction, so that one copy takes %.1f s at least.
*rsync* is a Prolog that runs `+"`rsync -a`"+` onto the node, and once more where all of it is there. *datamove* has `+"`#DATAMOVE stage-in=dataset:SET to=scratch:set required`"+`, no tier that all
nodes see, and then a second job on the same nodes.

| nodes | rsync: idle s | × size | datamove, first job: idle s | × size | rsync, again: idle s | × size | datamove, second job: idle s | × size |
|---|---|---|---|---|---|---|---|---|
`, setFiles, float64(bytes)/1e6, storeMbit, float64(bytes)*8/storeMbit/1e6)
	for _, n := range sizes {
		f.say("| %d", n)
		set := "set" + strconv.Itoa(n)
		byRsync := []string{"#!/bin/sh\n" + countedIn("/local_nvme/rsync"), "--comment=rsync:" + set}
		byUs := []string{"#!/bin/sh\n#DATAMOVE stage-in=dataset:" + set + " to=scratch:set required\n" + countedIn("$DATAMOVE_IN_SET")}
		for _, job := range [][]string{byRsync, byUs, byRsync, byUs} {
			idle, left := f.job(n, bytes, job[0], job[1:]...)
			f.say(" | %.1f | %.3f", idle, float64(left)/float64(bytes))
		}
		f.say(" |\n")
		for node := 1; node <= n; node++ {
			must.Do(f.t, os.RemoveAll(f.Path(node, "/local_nvme/rsync")))
		}
	}
	f.say("\nA tier that all nodes see is not in it: the data would come there while the job is pending, and from there onto the nodes as from a store.\n")
}

// countedIn says on each node when it begins, and how many bytes it has.
func countedIn(dir string) string {
	return `srun sh -c 'echo at $(date +%s.%N); echo bytes $(cat ` + dir + "/* | wc -c)'\n"
}

// job runs one on nodes 1 to n, and returns for how many seconds they waited, and how many bytes have left the store.
func (f *figures) job(n, bytes int, script string, args ...string) (idle float64, left int64) {
	f.t.Helper()
	before := f.left()
	id := f.MustSubmit(Anna, script, append(args, "-N", strconv.Itoa(n), "-w", fmt.Sprintf("node[1-%d]", n))...)
	f.Eventually("job "+id+" completes", func() error {
		j, err := f.Job(id)
		if err == nil && j.State != "COMPLETED" {
			err = fmt.Errorf("it is %+v", j)
		}
		return err
	})
	left = f.left() - before
	said := f.Output(Anna, id)
	var last float64
	whole := 0
	for line := range strings.Lines(said) {
		word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "at":
			last = max(last, f.number(value))
		case word == "bytes" && value == strconv.Itoa(bytes):
			whole++
		}
	}
	if whole != n {
		f.t.Fatalf("job %s on %d nodes of %d bytes: %s", id, n, bytes, said)
	}
	f.allIdleNow()
	return float64(n) * (last - f.number(f.read("/project/allocated-"+id))), left
}

func (f *figures) number(text string) float64 {
	f.t.Helper()
	x := must.Get(strconv.ParseFloat(text, 64))(f.t)
	return x
}

// store starts one, with a dataset for each number of nodes, and has datamove know it.
func (f *figures) store(sizes []int, bytes int) {
	f.t.Helper()
	f.said(Controller, "sh", "-ec", `
ip netns add store
ip link add to-store type veth peer name eth0 netns store
ip link set to-store master br0 up
ip -n store link set lo up
ip -n store address add `+storeAddress+`/24 dev eth0
ip -n store link set eth0 up
`)
	etc := f.Path(Controller, "/etc")
	must.Do(f.t, errors.Join(write(etc+"/rsyncd.store", "use chroot = no\nuid = 0\ngid = 0\n[data]\npath = /opt/archive/store/data\n"), write(etc+"/datamove/none.yaml", "tiers: {}\n")))
	inStore := []string{"ip", "netns", "exec", "store"}
	f.s3(storeAddress, inStore...)
	f.Beside(Controller, "rsyncd", append(inStore, "rsync", "--daemon", "--no-detach", "--config=/etc/rsyncd.store", "--address="+storeAddress, "--log-file=/dev/null")...)
	f.again(storeConf)
	for _, n := range sizes {
		f.set("set"+strconv.Itoa(n), bytes)
	}
}

// set brings files that nothing makes smaller into the store, as a dataset.
func (f *figures) set(name string, bytes int) {
	f.t.Helper()
	dir := f.Path(Controller, "/opt/archive/"+name)
	must.Do(f.t, os.Mkdir(dir, 0o755))
	content := rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%32s", name))))
	file := make([]byte, bytes/setFiles)
	for i := range setFiles {
		_, _ = content.Read(file) // never fails
		must.Do(f.t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%03d", i)), file, 0o644))
	}
	f.said(Controller, "env", "DATAMOVE_CONFIG=/etc/datamove/none.yaml", "AWS_ENDPOINT_URL_S3=http://"+storeAddress+":9000", "AWS_REGION=us-east-1", keyID, keySecret,
		"datamove", "copy", "-q", "/opt/archive/"+name, "s3://data/"+name)
	must.Do(f.t, os.RemoveAll(dir))
	if out, err := f.As(Anna, Controller, "", "datamove", "dataset", "add", name, "store:"+name); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
}

// shape limits the link of the store and that of each node, at both ends: each shapes what leaves it. That TCP sends large packets, and
// has no timer for each of them, is what it does by itself on fast links; on these it would cost the machine more than what is measured.
func (f *figures) shape() {
	f.t.Helper()
	const tcp = `; echo 44 >/proc/sys/net/ipv4/tcp_min_tso_segs; echo reno >/proc/sys/net/ipv4/tcp_congestion_control`
	limit := fmt.Sprintf(" root tbf rate %dmbit burst 262144 latency 50ms", storeMbit)
	f.said(Controller, "sh", "-ec", "tc qdisc add dev to-store"+limit+"; tc -n store qdisc add dev eth0"+limit+"; ip netns exec store sh -ec ':"+tcp+"'")
	for n := 1; n <= f.o.Nodes; n++ {
		f.said(Controller, append([]string{"tc"}, strings.Fields("qdisc add dev to-"+MachineName(n)+limit)...)...)
		f.said(n, "sh", "-ec", "tc qdisc add dev eth0"+limit+tcp)
	}
}

// left is how many bytes have left the store since it is there.
func (f *figures) left() int64 {
	f.t.Helper()
	var links []struct {
		Stats64 struct{ RX struct{ Bytes int64 } }
	}
	must.Do(f.t, json.Unmarshal([]byte(f.said(Controller, "ip", "-s", "-j", "link", "show", "dev", "to-store")), &links))
	return links[0].Stats64.RX.Bytes
}
