package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// policy is a document of IAM, as far as the fake understands it: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements.html.
type policy struct {
	Version   string
	ID        string `json:"Id"`
	Statement oneOrMore[statement]
}

type statement struct {
	Sid       string
	Effect    string
	Action    oneOrMore[string]
	Resource  oneOrMore[string]
	Condition map[string]map[string]oneOrMore[string] // operator, key, values
}

// oneOrMore is a list that may be written without brackets when it has one member.
type oneOrMore[T any] []T

// UnmarshalJSON reads either.
func (l *oneOrMore[T]) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if text[0] == '[' {
		return d.Decode((*[]T)(l))
	}
	*l = make([]T, 1)
	return d.Decode(&(*l)[0])
}

// parsePolicy refuses also what IAM knows and the fake does not, because a condition that is passed over would allow too much.
func parsePolicy(text string) (*policy, error) {
	p := new(policy)
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, err
	}
	if p.Version != "2012-10-17" || len(p.Statement) == 0 {
		return nil, fmt.Errorf("a policy has the Version 2012-10-17, and a Statement")
	}
	for _, st := range p.Statement {
		if err := st.check(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (st *statement) check() error {
	if (st.Effect != "Allow" && st.Effect != "Deny") || len(st.Action) == 0 || len(st.Resource) == 0 {
		return fmt.Errorf("a statement has an Effect (Allow or Deny), an Action and a Resource")
	}
	for operator, of := range st.Condition {
		if operators[operator] == nil {
			return fmt.Errorf("this fake knows no condition %s", printable(operator))
		}
		for key := range of { // s3:prefix has a value in requests to S3, which do not come here
			if key != "s3:prefix" && !strings.EqualFold(key, "aws:RequestedRegion") && !strings.HasPrefix(key, "aws:RequestTag/") && !strings.HasPrefix(key, "aws:ResourceTag/") {
				return fmt.Errorf("this fake knows no condition key %s", printable(key))
			}
		}
	}
	return nil
}

// operators of conditions: has says whether the request has a value at all.
var operators = map[string]func(has bool, value string, want []string) bool{
	"StringEquals":    func(has bool, value string, want []string) bool { return has && slices.Contains(want, value) },
	"StringNotEquals": func(_ bool, value string, want []string) bool { return !slices.Contains(want, value) },
	"StringLike": func(has bool, value string, want []string) bool {
		return has && slices.ContainsFunc(want, func(w string) bool { return wild(w, value) })
	},
}

// wild matches a pattern with * and ?.
func wild(pattern, text string) bool {
	expression := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
	ok, err := regexp.MatchString("(?s)^"+expression+"$", text)
	return err == nil && ok
}

// question is what policies are asked.
type question struct {
	action, resource string
	values           map[string]string // of condition keys
}

func (st *statement) applies(q question) bool {
	action := slices.ContainsFunc(st.Action, func(a string) bool { return wild(strings.ToLower(a), strings.ToLower(q.action)) })
	if !action || !slices.ContainsFunc(st.Resource, func(r string) bool { return wild(r, q.resource) }) {
		return false
	}
	for operator, of := range st.Condition {
		for key, want := range of {
			value, has := q.values[key]
			if !operators[operator](has, value, want) {
				return false
			}
		}
	}
	return true
}

// allows is a Deny that applies: no; an Allow that applies: yes; otherwise no.
func (p *policy) allows(q question) bool {
	allowed := false
	for _, st := range p.Statement {
		if st.applies(q) {
			if st.Effect == "Deny" {
				return false
			}
			allowed = true
		}
	}
	return allowed
}

// permit asks all policies of the key, for all resources of the call.
func (s *Server) permit(c *call) error {
	if c.operation == "GetCallerIdentity" {
		return nil // needs no permission, as documented
	}
	action := c.iam + ":" + c.operation
	for _, r := range s.touched(c) {
		q := question{action, r.arn, map[string]string{"aws:RequestedRegion": c.region}}
		for _, t := range r.Tags {
			q.values["aws:ResourceTag/"+t.Key] = t.Value
		}
		for _, t := range c.tags() {
			q.values["aws:RequestTag/"+t.Key] = t.Value
		}
		for _, p := range c.key.policies {
			if !p.allows(q) {
				return c.denied("User: " + c.key.arn + " is not authorized to perform: " + action + " on resource: " + r.arn + " because no session policy allows the " + action + " action")
			}
		}
	}
	return nil
}

// thing is a resource as policies see it.
type thing struct {
	arn  string
	Tags []tag
}

// touched is of https://docs.aws.amazon.com/service-authorization/latest/reference/: what a call does something to; "*" is what has no resources, as the describing ones.
func (s *Server) touched(c *call) []thing {
	switch c.service {
	case &fsxService:
		return s.touchedFSx(c)
	case &ec2Service:
		return s.touchedInstances(c)
	case &stsService:
		return []thing{{arn: first(c.form["RoleArn"])}}
	}
	return []thing{{arn: "*"}}
}

func (s *Server) touchedFSx(c *call) (all []thing) {
	var in struct{ FileSystemID, AssociationID, TaskID, ResourceARN string }
	_ = json.Unmarshal(c.body, &in) // what is no JSON is refused when it is read
	switch {
	case strings.HasPrefix(c.operation, "Describe"):
		return []thing{{arn: "*"}}
	case c.operation == "CreateFileSystem":
		return []thing{{arn: s.arn(c, "file-system/*")}}
	case c.operation == "CreateDataRepositoryAssociation":
		all = append(all, thing{arn: s.arn(c, "association/"+in.FileSystemID+"/*")})
	case c.operation == "CreateDataRepositoryTask":
		all = append(all, thing{arn: s.arn(c, "task/*")})
	}
	for _, r := range s.everything() {
		if r.id == in.FileSystemID || r.id == in.AssociationID || r.id == in.TaskID || r.ResourceARN == in.ResourceARN {
			all = append(all, thing{r.ResourceARN, r.Tags})
		}
	}
	if len(all) == 0 {
		all = []thing{{arn: s.arn(c, "file-system/"+in.FileSystemID)}}
	}
	return all
}

// everything that FSx has.
func (s *Server) everything() (all []*resource) {
	for _, f := range s.systems {
		all = append(all, &f.resource)
	}
	for _, a := range s.associations {
		all = append(all, &a.resource)
	}
	for _, t := range s.tasks {
		all = append(all, &t.resource)
	}
	return all
}

// tags are those that a call brings.
func (c *call) tags() []tag {
	var in struct{ Tags []tag }
	if c.protocol == &json11 {
		_ = json.Unmarshal(c.body, &in) // what is no JSON is refused when it is read
		return in.Tags
	}
	return formTags(c.form, "Tag")
}
