package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/config"
	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/location"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// job is a task for a process, without its secrets.
func (a *Agent) job(task string, spec *pb.TaskSpec, roots []string) *agentv1.Job {
	return &agentv1.Job{Task: task, Spec: spec, Roots: roots, LogLevel: "info", TierPaths: a.tierPaths(), Mounts: a.mounts(), KeepFree: a.keepFree()}
}

// end is one location of a task and what is done there.
type end struct {
	text  string
	write bool
}

func ends(spec *pb.TaskSpec) []end {
	if task.Of(spec).Probe {
		return []end{{spec.GetSource(), false}}
	}
	write := !task.Of(spec).ReadOnly && !convert.ComesHome(spec)
	all := []end{{spec.GetSource(), convert.ChangesSource(spec)}, {spec.GetTarget(), write}}
	for _, s := range spec.GetSources() {
		all = append(all, end{s, false})
	}
	for _, s := range spec.GetBurst().GetHomes() {
		all = append(all, end{s, true})
	}
	return all
}

// prepare gives the job its tiers with their secrets, and returns what the process
// may reach.
func (a *Agent) prepare(p *process, who osaccount.Account) (sandbox.Confinement, error) {
	spec := p.job.GetSpec()
	roots := sandbox.Confinement{Write: []string{p.job.GetStateDir()}}
	p.job.Closed = who.UID != uint32(os.Geteuid())
	a.believe(spec)
	for _, e := range ends(spec) {
		if e.text == "" {
			continue
		}
		l, err := convert.Locate(e.text)
		if err != nil {
			return roots, err
		}
		if err := a.admit(p, l, e.write, &roots); err != nil {
			return roots, err
		}
	}
	if dir := spec.GetOptions().GetBackupDir(); strings.HasPrefix(dir, "/") {
		roots.Write = append(roots.Write, dir)
	}
	if convert.Follows(spec) {
		more, err := linkRoots(p.job.GetRoots())
		if err != nil {
			return roots, err
		}
		roots.Read = append(roots.Read, more...)
	}
	return roots, nil
}

// unfollowed are folders of a host that no link of a source leads into: the kernel tells there of other processes and of devices.
var unfollowed = []string{"dev", "proc", "run", "sys"}

// linkRoots are where links of a source may lead, as far as the account may read: the roots of its project; without any, this host.
func linkRoots(project []string) (roots []string, err error) {
	if len(project) > 0 {
		return project, nil
	}
	all, err := os.ReadDir("/")
	for _, e := range all {
		if e.IsDir() && !slices.Contains(unfollowed, e.Name()) {
			roots = append(roots, "/"+e.Name())
		}
	}
	return roots, err
}

// believe asks for what a source says of rights where the configuration of this node trusts all sources of a task: the process does not
// know which tiers are trusted.
func (a *Agent) believe(spec *pb.TaskSpec) {
	trusted := false
	for _, e := range ends(spec) {
		if e.text == "" || e.write {
			continue
		}
		l, err := convert.Locate(e.text)
		if err != nil || l.InStore() {
			return
		}
		if tier := a.conf().Tiers[l.Tier]; l.InTier() && tier.S3 != nil {
			if trusted = tier.S3.Trusted; !trusted {
				return
			}
		}
	}
	if o := spec.GetOptions(); trusted {
		if o == nil {
			o = &pb.Options{}
			spec.Options = o
		}
		o.Preserve = convert.WithPrivileges(o.GetPreserve())
	}
}

// admit lets the process reach one location.
func (a *Agent) admit(p *process, l location.Location, write bool, roots *sandbox.Confinement) error {
	path, endpoint := l.Path, ""
	switch {
	case l.InStore():
		path, endpoint = "", strings.TrimSuffix(l.Root().String(), "/")
		roots.Read = append(roots.Read, amazonFiles(!p.job.GetClosed())...)
	case l.InTier():
		tier, ok := a.conf().Tiers[l.Tier]
		if !ok {
			return a.unready(remedy.Tier, &mover.Error{Op: "open", Location: l.String(), Err: fmt.Errorf("%w: the configuration of this node has no such tier", mover.ErrNotExist)})
		}
		access, err := a.access(l.Tier, tier, p.job.GetSpec().GetProject())
		if err != nil {
			return err
		}
		p.job.Tiers = append(p.job.Tiers, access)
		endpoint = l.Tier
		if path = ""; tier.S3 == nil {
			path = filepath.Join(tier.Path, filepath.FromSlash(l.Path))
			a.admitFeed(p, tier.Feed, path, roots)
			break
		}
		if roots.Read = append(roots.Read, amazonFiles(!p.job.GetClosed())...); access.GetCa() != "" {
			roots.Read = append(roots.Read, access.GetCa())
		}
	case l.IsDataset():
		return &mover.Error{Op: "open", Location: l.String(), Err: fmt.Errorf("%w: a dataset has to be resolved to a replica", mover.ErrUsage)}
	}
	if endpoint != "" {
		p.charges = append(p.charges, fairshare.Charge{Endpoint: endpoint, Write: write})
	}
	switch {
	case path == "":
	case write && task.Of(p.job.GetSpec()).RemovesTarget: // it goes itself
		roots.Write = append(roots.Write, filepath.Dir(filepath.Clean(path)))
	case write:
		roots.Write = append(roots.Write, path)
	default:
		roots.Read = append(roots.Read, path)
	}
	return nil
}

// admitFeed lets the process that tells of changes in a tier reach the change log, if this node knows of no other feed of the tier.
func (a *Agent) admitFeed(p *process, feed, dir string, roots *sandbox.Confinement) {
	if !task.Of(p.job.GetSpec()).Feed || a.o.FeedReach == nil || feed != "" && feed != "changelog" {
		return
	}
	more := a.o.FeedReach(dir)
	roots.List, roots.Devices = append(roots.List, more.List...), append(roots.Devices, more.Devices...)
}

// access is a tier with what opens it: the credentials of the project where it has
// some, else its own.
func (a *Agent) access(name string, t config.Tier, project string) (*agentv1.TierAccess, error) {
	out := &agentv1.TierAccess{Name: name, Level: t.Level, Path: t.Path}
	if t.S3 == nil {
		return out, nil
	}
	s := t.S3
	out.S3, out.Endpoint, out.Bucket, out.Prefix, out.Region, out.Ca, out.Client = true, s.Endpoint, s.Bucket, s.Prefix, s.Region, s.CA, s.Client
	out.Encryption, out.KmsKey, out.RequireRegion = s.Encryption, s.KMSKey, s.RequireRegion
	if s.PathStyle != nil {
		out.PathStyle, out.PathStyleSet = *s.PathStyle, true
	}
	out.Credentials = s.Credentials
	if own := a.conf().Projects[project].S3; own != nil && own.Credentials != "" {
		out.Credentials = own.Credentials
	}
	// Under another UID the process has neither our environment nor our files: both say where AWS is and what a profile is.
	resolved, err := s3api.Options{Endpoint: s.Endpoint, Region: s.Region, Credentials: out.Credentials, CABundle: s.CA}.Resolved(context.Background())
	if err != nil {
		return nil, a.unready(remedy.KeyFile, &mover.Error{Op: "open", Location: "tier " + name, Err: err})
	}
	out.Endpoint, out.Region, out.Ca, out.Keys = resolved.Endpoint, resolved.Region, resolved.CABundle, resolved.KeyText
	return out, a.unready(remedy.KeyFile, secret(out))
}

// Keys implements agentv1.WorkerServiceServer: what the credentials of a tier of the job are now.
func (p *process) Keys(_ context.Context, r *agentv1.KeysRequest) (*agentv1.KeysResponse, error) {
	name := r.GetTier()
	of := func(t *agentv1.TierAccess) bool { return t.GetName() == name && t.GetS3() }
	tier, ok := p.agent.conf().Tiers[name]
	if !ok || tier.S3 == nil || !slices.ContainsFunc(p.job.GetTiers(), of) {
		return nil, fmt.Errorf("%w: this job has no bucket in a tier %q", mover.ErrPermission, name)
	}
	access, err := p.agent.access(name, tier, p.job.GetSpec().GetProject())
	if err != nil {
		return nil, err
	}
	return &agentv1.KeysResponse{Keys: access.GetKeys()}, nil
}

// secret puts the keys into the access that it names, because the process can read
// neither our files nor our environment.
func secret(t *agentv1.TierAccess) error {
	file, named := config.CredentialsFile(t.GetCredentials())
	switch {
	case named:
		text, err := os.ReadFile(file)
		if err != nil {
			return &mover.Error{Op: "read the credentials of tier", Location: t.GetName(), Err: err}
		}
		t.Keys = string(text)
	case t.GetCredentials() == "env":
		for _, key := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
			if v := os.Getenv(key); v != "" {
				t.Keys += key + "=" + v + "\n"
			}
		}
	}
	return nil
}

// services of AWS that a burst asks, beside S3. Where they are is said by the environment only: a site's own endpoint, or a stand-in.
var services = []string{"FSX", "STS", "EC2", "CLOUDWATCH", "COST_EXPLORER"}

// ways are the variables that say how stores are reached. None is a secret of ours: a proxy that wants a password is not for processes of others.
var ways = []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"}

// environment is the environment of a process: under another UID it inherits only how AWS is reached.
func (a *Agent) environment(who osaccount.Account) []string {
	ours := who.UID == uint32(os.Geteuid())
	env := []string{"LANG=C.UTF-8", "HOME=/nonexistent", "GOGC=400"} // a worker sets that itself, but has collected what its packages have made by then
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		service, of := strings.CutPrefix(name, "AWS_ENDPOINT_URL_")
		switch {
		case ours && (name == "HOME" || strings.HasPrefix(name, "AWS_") || name == "GOMAXPROCS"),
			of && slices.Contains(services, service),
			slices.Contains(ways, name) && (ours || !strings.Contains(value, "@")),
			name == "AWS_CA_BUNDLE" && openToAll(value):
			env = append(env, kv)
		}
	}
	return env
}

// amazonFiles are the files in which a process finds what the AWS environment says; see ways and "Shared config and credentials files" in the AWS
// SDKs and Tools Reference Guide. Configuration and keys are for processes of ours alone.
func amazonFiles(ours bool) []string {
	if bundle := os.Getenv("AWS_CA_BUNDLE"); !ours {
		if !openToAll(bundle) {
			return nil
		}
		return []string{bundle}
	}
	files := []string{os.Getenv("AWS_CA_BUNDLE"), os.Getenv("AWS_CONFIG_FILE"), os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE")}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".aws", "config"), filepath.Join(home, ".aws", "credentials"))
	}
	return slices.DeleteFunc(files, func(path string) bool { return !filepath.IsAbs(path) })
}

// openToAll reports whether every user can read a file, by its mode and those of the directories around it.
func openToAll(path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	path, err := filepath.EvalSymlinks(path)
	for need := os.FileMode(0o004); err == nil; need = 0o001 {
		info, err := os.Stat(path)
		if err != nil || info.Mode()&need == 0 {
			return false
		}
		if path == "/" {
			return true
		}
		path = filepath.Dir(path)
	}
	return false
}
