package aws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
)

var stsService = service{
	name: "sts", iam: "sts", namespace: "https://sts.amazonaws.com/doc/2011-06-15/", version: "2011-06-15", protocol: &awsQuery,
	operations: map[string]operation{
		"AssumeRole":                queryOperation((*Server).assumeRole),
		"AssumeRoleWithWebIdentity": queryOperation((*Server).assumeRoleWithWebIdentity),
		"GetCallerIdentity":         queryOperation((*Server).callerIdentity),
	},
}

// unsigned are calls that need no key.
var unsigned = map[string]bool{"AssumeRoleWithWebIdentity": true}

// Role is one that may be assumed.
type Role struct {
	Name       string            // its ARN is that of RoleARN(Name)
	ExternalID string            // that a caller has to know; "" is none
	Policy     string            // what it may; "" is everything. What a session may is in its own policy too
	Longest    time.Duration     // of a session; 0 means 1 h
	WebTokens  map[string]string // tokens of an identity provider, and their subjects. The fake believes these, and verifies no JWT
}

// RoleARN is the ARN of a role.
func RoleARN(name string) string { return "arn:aws:iam::" + Account + ":role/" + name }

// AddRole has the account have a role.
func (s *Server) AddRole(r Role) error {
	if r.Policy != "" {
		if _, err := parsePolicy(r.Policy); err != nil {
			return fmt.Errorf("the policy of role %s: %w", r.Name, err)
		}
	}
	if r.Longest == 0 {
		r.Longest = time.Hour
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roles[RoleARN(r.Name)] = &r
	return nil
}

// AddKey has the account have a user with a long-lived key, who may do what a policy says; "" is everything.
func (s *Server) AddKey(user, access, secret, text string) error {
	k := &key{access: access, secret: secret, arn: "arn:aws:iam::" + Account + ":user/" + user, user: "AIDA" + strings.ToUpper(user)}
	if text != "" {
		p, err := parsePolicy(text)
		if err != nil {
			return fmt.Errorf("the policy of user %s: %w", user, err)
		}
		k.policies = []*policy{p}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys[access] = k
	return nil
}

// Revoke has the server know a key no more.
func (s *Server) Revoke(access string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, access)
}

type credentials struct {
	AccessKeyID     string `xml:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Expiration      string
}

type assumed struct {
	Subject     string      `xml:"SubjectFromWebIdentityToken,omitempty"`
	Provider    string      `xml:",omitempty"`
	Credentials credentials `xml:"Credentials"`
	RoleID      string      `xml:"AssumedRoleUser>AssumedRoleId"`
	ARN         string      `xml:"AssumedRoleUser>Arn"`
	Packed      *int        `xml:"PackedPolicySize,omitempty"`
}

func (s *Server) assumeRole(c *call, in *form) (any, error) {
	external := in.text("ExternalId")
	in.tags("Tags.member")
	role, err := s.role(in)
	if err != nil {
		return nil, err
	}
	if role.ExternalID != external {
		return nil, c.denied("User: " + c.key.arn + " is not authorized to perform: sts:AssumeRole on resource: " + RoleARN(role.Name))
	}
	return s.session(c, in, role)
}

func (s *Server) assumeRoleWithWebIdentity(c *call, in *form) (any, error) {
	token := in.text("WebIdentityToken")
	role, err := s.role(in)
	if err != nil {
		return nil, err
	}
	subject, ok := role.WebTokens[token]
	if !ok {
		return nil, refuse("InvalidIdentityToken", "the role does not trust the web identity token")
	}
	a, err := s.session(c, in, role)
	if err != nil {
		return nil, err
	}
	a.Subject, a.Provider = subject, "https://identity.test"
	return a, nil
}

// role finds the one that is asked for. One that is not there is denied, as AWS does, who tells nobody which roles there are.
func (s *Server) role(in *form) (*Role, error) {
	arn := in.text("RoleArn")
	if role := s.roles[arn]; role != nil {
		return role, nil
	}
	return nil, in.c.denied("not authorized to perform: sts:" + in.c.operation + " on resource: " + printable(arn))
}

const mostPolicy = 2048 // characters of a session policy

var sessionName = mover.Pattern(`^[\w+=,.@-]{2,64}$`)

// session makes credentials that end by themselves.
func (s *Server) session(c *call, in *form, role *Role) (*assumed, error) {
	name, text := in.text("RoleSessionName"), in.text("Policy")
	seconds, err := in.number("DurationSeconds")
	if err != nil {
		return nil, err
	}
	if err := in.rest(); err != nil {
		return nil, err
	}
	lasts := min(time.Hour, role.Longest)
	if seconds != nil {
		lasts = time.Duration(*seconds) * time.Second
	}
	switch {
	case !sessionName().MatchString(name):
		return nil, refuse("ValidationError", "RoleSessionName %s: 2 to 64 of A-Z, a-z, 0-9, _ + = , . @ -", printable(name))
	case lasts < 15*time.Minute || lasts > role.Longest:
		return nil, refuse("ValidationError", "DurationSeconds: 900 to %.0f for this role", role.Longest.Seconds())
	case len(text) > mostPolicy:
		return nil, refuse("ValidationError", "Policy has %d characters: at most %d", len(text), mostPolicy)
	}
	policies, err := both(role.Policy, text)
	if err != nil {
		return nil, refuse("MalformedPolicyDocument", "%v", err)
	}
	k := s.newKey(c, role, name, policies, c.at.Add(lasts))
	a := &assumed{
		Credentials: credentials{k.access, k.secret, k.token, k.expires.UTC().Format(time.RFC3339)},
		RoleID:      k.user, ARN: k.arn,
	}
	if text != "" {
		packed := 100 * len(text) / mostPolicy
		a.Packed = &packed
	}
	return a, nil
}

// both are what a session is bound by.
func both(texts ...string) (all []*policy, err error) {
	for _, text := range texts {
		if text == "" {
			continue
		}
		p, err := parsePolicy(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (s *Server) newKey(c *call, role *Role, session string, policies []*policy, expires time.Time) *key {
	_, n := s.name("key")
	k := &key{
		access: fmt.Sprintf("ASIA%016d", n), secret: fmt.Sprintf("secret-of-session-%022d", n), token: fmt.Sprintf("token-of-session-%032d", n),
		expires: expires.Truncate(time.Second), // what the reply can say
		arn:     "arn:aws:sts::" + Account + ":assumed-role/" + role.Name + "/" + session, user: fmt.Sprintf("AROA%017d:%s", n, session),
	}
	k.policies = slices.Clone(policies)
	if c.key != nil && strings.Contains(c.key.arn, ":assumed-role/") {
		k.expires = earlier(k.expires, c.at.Add(time.Hour)) // role chaining: at most an hour
	}
	s.keys[k.access] = k
	return k
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (s *Server) callerIdentity(c *call, in *form) (any, error) {
	return &struct {
		ARN     string `xml:"Arn"`
		UserID  string `xml:"UserId"`
		Account string
	}{c.key.arn, c.key.user, Account}, in.rest()
}
