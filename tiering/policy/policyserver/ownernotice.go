package policyserver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/notify"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/policy"
)

const (
	lettersMost = 1000 // to owners, of one plan: those that lose most
	namedMost   = 20   // files in a letter
)

// portion is what a plan would take away of one owner.
type portion struct {
	owner string
	all   policy.Tally
	rules map[string]policy.Tally // by what is done
	first []*pb.PlanItem
}

// lettersOf are what a plan has to tell owners of what it would take away.
func (s *Server) lettersOf(p *policy.Program, head *pb.Plan, due time.Time) (letters []notify.Message, err error) {
	shares, err := s.sharesOf(p, head)
	if err != nil {
		return nil, err
	}
	for _, of := range shares {
		letters = append(letters, s.letterTo(of, p, head, due))
	}
	return letters, nil
}

// sharesOf returns what a plan would take from each owner, the most bytes first, at most lettersMost. Accounts without a name get no mail and are left out.
func (s *Server) sharesOf(p *policy.Program, head *pb.Plan) ([]*portion, error) {
	f, err := s.openPlan(head.GetId())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	shares := map[uint32]*portion{}
	for item, err := range f.Items() {
		if err != nil {
			return nil, err
		}
		if !p.Policy.Spec.Rules[item.GetRuleIndex()].Action.Type.Removes() || !mover.Facts(item.GetKnown()).Has(mover.FactOwner) {
			continue
		}
		of := shares[item.GetUid()]
		if of == nil {
			of = &portion{rules: map[string]policy.Tally{}}
			if s.o.People != nil {
				if of.owner, err = s.o.People.User(item.GetUid()); err != nil { // they are told later
					return nil, err
				}
			}
			shares[item.GetUid()] = of
		}
		if of.owner == "" {
			continue
		}
		more := func(t policy.Tally) policy.Tally {
			return policy.Tally{Files: t.Files + 1, Bytes: t.Bytes + item.GetBytes()}
		}
		does := item.GetAction()
		if item.GetTarget() != "" {
			does += " to " + item.GetTarget()
		}
		of.all, of.rules[does] = more(of.all), more(of.rules[does])
		if len(of.first) < namedMost {
			of.first = append(of.first, item)
		}
	}
	all := slices.DeleteFunc(slices.Collect(maps.Values(shares)), func(of *portion) bool { return of.owner == "" })
	slices.SortFunc(all, func(a, b *portion) int {
		return cmp.Or(cmp.Compare(b.all.Bytes, a.all.Bytes), cmp.Compare(a.owner, b.owner))
	})
	return all[:min(len(all), lettersMost)], nil
}

func told(t policy.Tally) string {
	return units.Plural(t.Files, "file", "files") + ", " + units.Bytes(t.Bytes)
}

func (s *Server) letterTo(of *portion, p *policy.Program, head *pb.Plan, due time.Time) notify.Message {
	var b strings.Builder
	at := due.UTC().Format("2006-01-02 15:04 MST")
	fmt.Fprintf(&b, "The policy %s%s runs at %s. Of your files it is to\n\n", head.GetPolicy(), ofTeam(p), at)
	for _, does := range slices.Sorted(maps.Keys(of.rules)) {
		fmt.Fprintf(&b, "    %s: %s\n", does, told(of.rules[does]))
	}
	fmt.Fprintf(&b, "\nWhat is used before then is looked at once more, and stays if the policy does not mean it any more.\n\n")
	for _, item := range of.first {
		fmt.Fprintf(&b, "    %s:%s  %s\n        %s\n", item.GetTier(), mover.Printable(string(item.GetName())), units.Bytes(item.GetBytes()), mover.Printable(item.GetReason()))
	}
	if more := of.all.Files - int64(len(of.first)); more > 0 {
		fmt.Fprintf(&b, "    and %s more\n", units.Count(more))
	}
	fmt.Fprintf(&b, "\nAll of them:     datamove policy plan --items --plan %s\nWhy one of them: datamove policy why FILE\n", head.GetId())
	return notify.Message{To: of.owner, Subject: fmt.Sprintf("datamove: %s of yours: policy %s runs at %s", told(of.all), head.GetPolicy(), at), Text: b.String()}
}

// ofTeam names the owner of a policy, for a sentence.
func ofTeam(p *policy.Program) string {
	if p.Policy.Metadata.Owner == "" {
		return ""
	}
	return ", of " + mover.Printable(p.Policy.Metadata.Owner) + ","
}

// channels are those of the configuration.
func (s *Server) channels() (all notify.Channels) {
	conf := s.conf()
	if m := conf.Mail; m.Server != "" {
		all.Mail = &notify.Mail{Server: m.Server, From: m.From, Domain: m.Domain}
	}
	all.Webhooks = map[string]notify.Webhook{}
	for name, w := range conf.Webhooks {
		all.Webhooks[name] = notify.Webhook{File: w.File, Format: notify.Format(w.Format)}
	}
	return all
}

// SendNotices tries the notices that wait, once, and reports whether none is left.
func (s *Server) SendNotices(ctx context.Context) (all bool) { return s.notifier.Send(ctx) }

// postAll posts a message to each recipient. A role stands for the users in it.
func (s *Server) postAll(recipients []string, m notify.Message) {
	var each []string
	for _, one := range recipients {
		role, is := s.conf().Roles[one]
		if !is {
			each = append(each, one)
			continue
		}
		for _, member := range role.Members {
			if !strings.HasPrefix(member, "@") { // a group has no address
				each = append(each, member)
			}
		}
	}
	for _, m.To = range slices.Compact(slices.Sorted(slices.Values(each))) {
		s.notifier.Post(m, nil)
	}
}

// postNotices sends the notices of a policy to the recipients that its notify rules name.
func (s *Server) postNotices(p *policy.Program, head *pb.Plan) {
	for i, totals := range head.GetRules() {
		a, kept := &p.Policy.Spec.Rules[i].Action, totals.GetKept()
		if a.Type != policy.Notify || kept.GetFiles() == 0 || len(a.Who) == 0 {
			continue
		}
		what := told(policy.Tally{Files: kept.GetFiles(), Bytes: kept.GetBytes()})
		s.postAll(a.Who, notify.Message{Subject: fmt.Sprintf("datamove: policy %s, rule %s: %s", head.GetPolicy(), totals.GetRule(), what),
			Text: fmt.Sprintf("%s\n\nRule %s of the policy %s matches %s, which stay as they are.\n\n    datamove policy history %s\n", a.Message, totals.GetRule(), head.GetPolicy(), what, head.GetPolicy())})
	}
}

// postStopped tells the owner and the approver of a policy, and all webhooks, that a run was stopped or did not begin.
func (s *Server) postStopped(r *pb.Run) {
	p, err := s.program(r.GetPolicy(), "")
	if err != nil {
		return
	}
	var to []string
	if p.Policy.Metadata.Owner != "" {
		to = append(to, p.Policy.Metadata.Owner)
	}
	if a := p.Policy.Spec.Safety.Approval; a != nil && a.By != "" && a.By != theOwner {
		to = append(to, a.By)
	}
	for name := range s.conf().Webhooks {
		to = append(to, notify.ToWebhook(name))
	}
	s.postAll(to, notify.Message{Subject: fmt.Sprintf("datamove: policy %s did not run to its end", r.GetPolicy()),
		Text: fmt.Sprintf("%s\n\nDone: %s, %s failed, %s skipped.\n\n    datamove policy history %s\n", mover.Printable(r.GetWhy()), told(policy.Tally{Files: r.GetDone().GetFiles(), Bytes: r.GetDone().GetBytes()}),
			units.Count(r.GetFailed()), units.Count(r.GetSkipped()), r.GetPolicy())})
}
