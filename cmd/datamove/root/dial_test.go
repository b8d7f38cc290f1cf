package root

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/server/pki"
	"datamove.dev/test/must"
)

// TestWhichService shows what comes first: the flag, the environment, the configuration.
func TestWhichService(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "c.yaml")
	must.Do(t, os.WriteFile(conf, []byte("service: unix:///of/the/file\n"), 0o600))
	for _, row := range []struct {
		env  string
		args []string
		want string // that can not be reached
	}{
		{"", []string{"--config", conf}, "unix:///of/the/file"},
		{"unix:///of/the/env", []string{"--config", conf}, "unix:///of/the/env"},
		{"unix:///of/the/env", []string{"--config", conf, "--service", "unix:///of/the/flag"}, "unix:///of/the/flag"},
		{"none", []string{"--config", conf, "--service", "unix:///of/the/flag"}, "unix:///of/the/flag"},
	} {
		u := newSession(t, nil)
		if row.env != "" {
			u.env["DATAMOVE_SERVICE"] = row.env
		}
		for _, args := range []string{"copy /a /b", "task list"} {
			_, said := u.wants(cli.ExitUnreachable, append(strings.Fields(args), row.args...)...)
			has(t, args, said, "reach "+row.want+": can not be reached: ", "; is datamoved running? systemctl status datamoved\ntry: ")
		}
	}

	u := newSession(t, nil)
	u.env["DATAMOVE_SERVICE"] = "none"
	_, said := u.wants(cli.ExitNotExist, "copy", "--config", conf, filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	has(t, "in this process", said, "no such file or directory")
	_, said = u.wants(cli.ExitUsage, "task", "list", "--service", "none")
	has(t, "none", said, "this asks a service, and --service says that there is none")
	_, said = u.wants(cli.ExitUsage, "task", "list", "--service", "elsewhere:7")
	has(t, "address", said, "the address of a service is unix:///path or tcp://host:port", "try: --service tcp://elsewhere:7\n")
	_, said = u.wants(cli.ExitUsage, "copy", "--config", filepath.Join(dir, "none.yaml"), "--service", "none", "x:/a", "/b")
	has(t, "configuration", said, "none.yaml")
}

// TestAnswers translates what a service answers.
func TestAnswers(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	for _, row := range []struct {
		kind error
		code int
		try  string
	}{
		{mover.ErrNotExist, cli.ExitNotExist, "datamove tier list"},
		{mover.ErrPermission, cli.ExitPermission, "datamove service info, which shows your account"},
		{mover.ErrUsage, cli.ExitUsage, ""},
		{mover.ErrConflict, cli.ExitConflict, ""},
		{mover.ErrRefused, cli.ExitLimit, ""},
		{mover.ErrUnsupported, cli.ExitOther, ""},
		{mover.ErrCorrupt, cli.ExitCorrupt, ""},
	} {
		s.errs["SubmitTask"] = &mover.Error{Op: "submit", Location: "project vision", Err: row.kind}
		_, said := u.wants(row.code, "copy", "/a", "/b")
		has(t, row.kind.Error(), said, "datamove: copy: submit project vision: "+row.kind.Error()+"\n")
		if row.try != "" {
			has(t, row.kind.Error(), said, "try: "+row.try)
		}
	}
}

// TestTCP calls a service over TCP: both sides have certificates.
func TestTCP(t *testing.T) {
	s := newFake(t)
	authority, err := pki.OpenAuthority(t.TempDir())
	must.Do(t, err)
	server, err := authority.Server("n1", "127.0.0.1")
	must.Do(t, err)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	unix := s.kill
	s.serveOn(on, grpc.Creds(credentials.NewTLS(pki.ServerTLS(pki.ServerOptions{Certificate: server.Certificate, Authorities: authority.Authorities}))))
	tcp := s.kill
	s.kill = sync.OnceFunc(func() { unix(); tcp() })
	s.answers["GetInfo"] = &pb.Info{Version: "1.2"}

	u := newSession(t, nil)
	u.env["DATAMOVE_SERVICE"] = "tcp://" + on.Addr().String()
	_, said := u.wants(cli.ExitNotExist, "service", "info")
	has(t, "no certificate", said, "read your certificate "+u.home+"/.config/datamove/identity.pem: ", "try: datamove service identity NAME on the machine of the service")

	dir := filepath.Join(u.home, ".config", "datamove")
	me := pki.Identity{Role: pki.User, Name: "alice"}
	keeper, err := pki.OpenStore(dir, me, pki.StoreOptions{})
	must.Do(t, err)
	err = keeper.Obtain(t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
		issued, err := authority.Issue(request, me, time.Hour)
		return issued.Certificate, issued.Authority, err
	})
	must.Do(t, err)
	out, _ := u.wants(0, "service", "info")
	has(t, "info", out, "datamoved 1.2")
	key := filepath.Join(dir, "identity.pem")
	u.env["DATAMOVE_IDENTITY"] = key
	u.wants(0, "service", "info")
	must.Do(t, os.Chmod(key, 0o644))
	_, said = u.wants(cli.ExitPermission, "service", "info")
	has(t, "others may read it", said, "read your certificate "+key+": permission denied: others may read the private key in it (mode 0644)\n", "try: chmod 600 "+key)

	other, err := pki.OpenAuthority(t.TempDir())
	must.Do(t, err)
	foreign := t.TempDir()
	if keeper, err = pki.OpenStore(foreign, me, pki.StoreOptions{}); err != nil {
		t.Fatal(err)
	}
	err = keeper.Obtain(t.Context(), func(_ context.Context, request []byte) ([]byte, []byte, error) {
		issued, err := other.Issue(request, me, time.Hour)
		return issued.Certificate, issued.Authority, err
	})
	must.Do(t, err)
	u.env["DATAMOVE_IDENTITY"] = filepath.Join(foreign, "identity.pem")
	_, said = u.wants(cli.ExitPermission, "service", "info")
	has(t, "somebody else", said, "this is not the service that we know", "try: a new certificate (datamove service identity, ")

	broken := filepath.Join(t.TempDir(), "identity.pem")
	must.Do(t, os.WriteFile(broken, []byte("-----BEGIN"), 0o600))
	u.env["DATAMOVE_IDENTITY"] = broken
	u.wants(cli.ExitUsage, "service", "info")
}

// TestDoctorAsksTheService finds a service that is there, one without agents, and none.
func TestDoctorAsksTheService(t *testing.T) {
	s, u := furnished(t)
	out, _ := u.wants(0, "doctor", t.TempDir())
	has(t, "doctor", out, "pass  "+s.address()+"  service: datamoved 1.2 on n1 answers, you are alice to it\n")
	s.answers["GetInfo"] = &pb.Info{Version: "1.2", Node: "n1"}
	out, _ = u.wants(0, "doctor", t.TempDir())
	has(t, "no agent", out, "warn  "+s.address(), "it has no agent to do anything\n      mend: datamove agent list")
	s.answers["GetInfo"] = &pb.Info{Version: "1.2", Node: "n1", Agents: 1, Full: "no room: 0 B free"}
	out, _ = u.wants(cli.ExitOther, "doctor", t.TempDir())
	has(t, "full", out, "fail  "+s.address()+"  service: no room: 0 B free\n      mend: make room on the disk of the service")
	out, _ = u.wants(0, "service", "info")
	has(t, "full", out, "\nfull      no room: 0 B free\n")
	s.answers["GetInfo"] = &pb.Info{Version: "1.2", Node: "n1", Agents: 1}
	unguarded := func(tier, node, why string) *pb.Replica {
		return &pb.Replica{Dataset: "vision", Tier: tier, Node: node, State: pb.ReplicaState_REPLICA_STATE_WHOLE, Unguarded: why}
	}
	all := []*pb.Replica{unguarded("project", "", "no ACLs"), unguarded("scratch", "n1", ""), unguarded("scratch", "n2", "squ\x1bashed"), unguarded("scratch", "n2", "no ACLs")}
	for i := range 6 {
		all = append(all, unguarded("scratch", fmt.Sprint("m", i), "no ACLs"))
	}
	s.answers["ListReplicas"] = &pb.ListReplicasResponse{Replicas: all}
	out, _ = u.wants(0, "doctor", t.TempDir())
	has(t, "unguarded", out, "warn  project:  guard: 1 replica: ", ": no ACLs\n      mend: ",
		"warn  scratch:  guard: 7 replicas of m0, m1, m2, m3, m4 and 2 more: ", "warn  scratch:  guard: 1 replica of n2: ")
	if strings.Contains(out, "\x1b") {
		t.Errorf("it writes to the terminal: %q", out)
	}
	s.errs["ListReplicas"] = fmt.Errorf("%w: not yours", mover.ErrPermission)
	if out, _ = u.wants(0, "doctor", t.TempDir()); strings.Contains(out, "guard") {
		t.Errorf("who may not list replicas: %s", out)
	}
	s.errs["ListReplicas"] = errors.New("broken")
	out, _ = u.wants(0, "doctor", t.TempDir())
	has(t, "no list", out, "warn  replicas  guard: ", "broken")
	s.errs["GetInfo"] = errors.New("broken")
	out, _ = u.wants(cli.ExitOther, "doctor", t.TempDir())
	has(t, "broken", out, "fail  "+s.address(), "broken\n      mend: look at its log")
	s.kill()
	out, _ = u.wants(cli.ExitOther, "doctor", t.TempDir())
	has(t, "away", out, "fail  "+s.address(), "is datamoved running?", "mend: systemctl start datamoved")
}

// TestTiersHere are tiers without a service.
func TestTiersHere(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "c.yaml")
	text := fmt.Sprintf("tiers:\n  scratch: {level: hot, path: %s, ephemeral: true}\n  gone: {level: warm, path: %s/none}\n  archive: {level: cold, s3: {bucket: bkt, prefix: team}}\n", dir, dir)
	must.Do(t, os.WriteFile(conf, []byte(text), 0o600))
	u := newSession(t, nil)
	out, _ := u.wants(0, "tier", "list", "--config", conf)
	has(t, "list", out, "archive       cold   -         no              0  s3://bkt/team\n", "gone          warm   -  ", "scratch       hot    -         yes             0  "+dir+"\n")
	out, _ = u.wants(0, "tier", "df", "--config", conf, "-o", "json", "scratch")
	has(t, "df", out, `"name":"scratch"`, `"total_bytes":`)
	out, _ = u.wants(0, "tier", "df", "--config", conf, "-o", "json", "archive")
	if strings.Contains(out, "total_bytes") {
		t.Errorf("of a bucket nobody knows: %s", out)
	}
	_, said := u.wants(cli.ExitUsage, "tier", "df", "--config", conf, "archiv")
	has(t, "unknown", said, `there is no tier "archiv"`)
	out, _ = u.wants(0, "__complete", "--config", conf, "tier", "df", "s")
	has(t, "completion", out, "scratch\thot\n")
	out, _ = u.wants(0, "__complete", "--config", conf, "copy", "sc")
	has(t, "completion of a location", out, "scratch:\thot\n")
	for _, begun := range []string{"", "./sc", "xyz"} { // files
		if out, _ = u.wants(0, "__complete", "--config", conf, "copy", begun); strings.Contains(out, "scratch") {
			t.Errorf("%q: %q", begun, out)
		}
	}
	policies := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(policies, "p.yaml"), []byte("kind: TierPolicy\nmetadata: {name: nightly, owner: ada}\nspec:\n  scope: {roots: ['scratch:']}\n  rules: [{name: a, action: keep}]\n"), 0o600))
	must.Do(t, os.WriteFile(conf, []byte(text+"policies: "+policies+"\n"), 0o600))
	out, _ = u.wants(0, "__complete", "--config", conf, "policy", "plan", "ni")
	has(t, "completion of a policy", out, "nightly\tada\n")
}

func TestCompletion(t *testing.T) {
	s, u := furnished(t)
	for args, want := range map[string]string{
		"task show |task":                       "task0000000000000001\trunning: copy /lustre/run-7 → archive:run-7\ntask0000000000000002\tdone: stage dataset:imagenet on scratch\n",
		"task cancel task0000000000000001|":     "task0000000000000002\tdone",
		"task list --state |":                   "queued\nrunning\npaused\ndone\nfailed\ncancelled\n",
		"tier df |":                             "archive\tcold\nscratch\thot\n",
		"release dataset:x --from |s":           "scratch\thot\n",
		"stage |":                               "dataset:empty\n",
		"stage dataset:x --node |":              "n1\tready\n",
		"copy dataset:i|":                       "dataset:imagenet\tvision\n",
		"dataset show |im":                      "imagenet\tvision\n",
		"dataset replicas --tier |a":            "archive\tcold\n",
		"agent drain |":                         "n1\tready\n",
		"lease drop |":                          "lease1\tslurm:4711, imagenet\n",
		"copy --class |r":                       "restore\ncheckpoint\nstage\nreplicate\n",
		"pin |dataset:":                         "dataset:imagenet\tvision\n",
		"task pause --service unix:///none/x |": ":4\n",
	} {
		line, begun, _ := strings.Cut(args, "|")
		words := strings.Fields(line)
		if strings.HasSuffix(line, ":i") { // begun is the last word
			words, begun = words[:len(words)-1], "dataset:i"
		}
		out, _ := u.wants(0, append(append([]string{"__complete"}, words...), begun)...)
		if !strings.Contains(out, want) {
			t.Errorf("%s: %q\nwant %q", args, out, want)
		}
	}
	s.kill()
	u.wants(0, "__complete", "task", "show", "")
}

// TestCompletionDoesNotHang asks a service that never answers.
func TestCompletionDoesNotHang(t *testing.T) {
	on := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	defer on.Close()
	u := newSession(t, nil)
	u.env["DATAMOVE_SERVICE"] = "unix://" + on.Addr().String()
	if out, _ := u.wants(0, "__complete", "task", "show", ""); out != ":4\n" {
		t.Errorf("%q", out)
	}
}
