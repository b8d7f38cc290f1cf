package aws

import (
	"slices"
	"strings"
	"time"
)

var ec2Service = service{
	name: "ec2", iam: "ec2", namespace: "http://ec2.amazonaws.com/doc/2016-11-15/", version: "2016-11-15", regional: true, protocol: &ec2Query,
	operations: map[string]operation{
		"DescribeInstances":    queryOperation((*Server).describeInstances),
		"StopInstances":        queryOperation((*Server).stopInstances),
		"TerminateInstances":   queryOperation((*Server).terminateInstances),
		"DescribeVpcEndpoints": queryOperation((*Server).describeEndpoints),
		"CreateTags":           queryOperation((*Server).createTags),
	},
}

// Instance is one of EC2 that a test has put there.
type Instance struct {
	ID         string // "i-0123456789abcdef0"
	Type       string // "p5.48xlarge"
	State      string // "" means running
	Spot       bool
	Region     string // "" means the first of the server
	LaunchTime time.Time
	Tags       map[string]string

	serial uint64
	due    time.Time // when stopping becomes stopped, and shutting-down terminated
}

// VPCEndpoint is one that a test has put there.
type VPCEndpoint struct {
	ID, VPC string // "vpce-...", "vpc-..."
	Service string // "com.amazonaws.us-east-1.s3"
	Type    string // "Gateway" or "Interface"
	Region  string // "" means the first of the server
}

// stateCodes are of https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceState.html.
var stateCodes = map[string]int{"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}

func (i *Instance) order() uint64 { return i.serial }

// AddInstance puts one there.
func (s *Server) AddInstance(i Instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	i.serial, i.Region, i.State = s.serial, or(i.Region, s.opts.Regions[0]), or(i.State, "running")
	s.instances = append(s.instances, &i)
}

// AddVPCEndpoint puts one there.
func (s *Server) AddVPCEndpoint(e VPCEndpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Region = or(e.Region, s.opts.Regions[0])
	s.endpoints = append(s.endpoints, e)
}

// query is the selection of a describing call.
type query struct {
	ids     []string
	filters map[string][]string
	limit   *int
	token   string
}

func (f *form) query(ids string) (q query, err error) {
	q = query{ids: f.list(ids), filters: map[string][]string{}, token: f.text("NextToken")}
	err = f.each("Filter", func(p string) error {
		q.filters[f.text(p+"Name")] = f.list(p + "Value")
		return nil
	})
	if err == nil {
		q.limit, err = f.number("MaxResults")
	}
	if err == nil {
		err = f.rest()
	}
	return q, err
}

func (s *Server) describeInstances(c *call, in *form) (any, error) {
	q, err := in.query("InstanceId")
	if err != nil {
		return nil, err
	}
	if q.limit != nil && (q.ids != nil || *q.limit < 5 || *q.limit > 1000) {
		return nil, refuse("InvalidParameterValue", "MaxResults %d: 5 to 1000, and not with InstanceId", *q.limit)
	}
	all, err := s.chosen(c, q.ids)
	if err != nil {
		return nil, err
	}
	for name, values := range q.filters {
		if name != "instance-state-name" && name != "tag-key" && !strings.HasPrefix(name, "tag:") {
			return nil, refuse("InvalidParameterValue", "this fake knows no filter %s", printable(name))
		}
		all = slices.DeleteFunc(all, func(i *Instance) bool { return !i.passes(name, values) })
	}
	part, next, err := page(all, q.limit, 1000, q.token)
	if err != nil {
		return nil, refuse("InvalidNextToken", "%v", err)
	}
	var reservations []element
	for _, i := range part {
		reservations = append(reservations, i.reservation())
	}
	return more([]element{{"reservationSet", "", reservations}}, next), nil
}

func more(reply []element, next string) []element {
	if next != "" {
		reply = append(reply, element{"nextToken", "", next})
	}
	return reply
}

// passes is one filter: any of the values, with * and ?.
func (i *Instance) passes(name string, values []string) bool {
	if name == "tag-key" {
		return slices.ContainsFunc(values, func(v string) bool { _, ok := i.Tags[v]; return ok })
	}
	value, ok := i.State, true
	if key, isTag := strings.CutPrefix(name, "tag:"); isTag {
		value, ok = i.Tags[key]
	}
	return ok && slices.ContainsFunc(values, func(v string) bool { return wild(v, value) })
}

// chosen are the instances of the region with these ids, or all.
func (s *Server) chosen(c *call, ids []string) (all []*Instance, err error) {
	for _, i := range s.instances {
		if i.Region == c.region && (ids == nil || slices.Contains(ids, i.ID)) {
			all = append(all, i)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(i *Instance) bool { return i.ID == id }) {
			return nil, refuse("InvalidInstanceID.NotFound", "The instance ID %s does not exist", printable(id))
		}
	}
	return all, nil
}

func (i *Instance) reservation() element {
	instance := []element{
		{"instanceId", "", i.ID}, {"imageId", "", "ami-0123456789abcdef0"}, {"instanceState", "", state(i.State)}, {"privateDnsName", "", ""}, {"instanceType", "", i.Type},
		{"launchTime", "", i.LaunchTime.UTC().Format("2006-01-02T15:04:05.000Z")}, {"placement", "", []element{{"availabilityZone", "", i.Region + "a"}}},
		{"tagSet", "", tagSet(i.Tags)},
	}
	if i.Spot {
		instance = append(instance, element{"instanceLifecycle", "", "spot"})
	}
	return element{"item", "", []element{
		{"reservationId", "", "r-0" + strings.TrimLeft(i.ID, "i-")}, {"ownerId", "", Account}, {"groupSet", "", []element{}},
		{"instancesSet", "", []element{{"item", "", instance}}},
	}}
}

func state(name string) []element {
	return []element{{"code", "", stateCodes[name]}, {"name", "", name}}
}

func tagSet(tags map[string]string) []element {
	var all []element
	for _, key := range sorted(tags) {
		all = append(all, element{"item", "", []element{{"key", "", key}, {"value", "", tags[key]}}})
	}
	return all
}

func (s *Server) stopInstances(c *call, in *form) (any, error) {
	return s.end(c, in, "stopping", "stopped")
}

func (s *Server) terminateInstances(c *call, in *form) (any, error) {
	return s.end(c, in, "shutting-down", "terminated")
}

// end stops or terminates, and says what was and what is. What has gone as far already stays as it is.
func (s *Server) end(c *call, in *form, now, then string) (any, error) {
	ids := in.list("InstanceId")
	if err := in.rest(); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, refuse("MissingParameter", "The request must contain the parameter InstanceId")
	}
	all, err := s.chosen(c, ids)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if then == "stopped" && (i.State == "terminated" || i.State == "shutting-down") {
			return nil, refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be stopped.", i.ID)
		}
		if then == "stopped" && i.Spot {
			return nil, refuse("UnsupportedOperation", "The one-time Spot Instance '%s' can not be stopped.", i.ID)
		}
	}
	var changes []element
	for _, i := range all {
		was := i.State
		if i.State != then && i.State != "terminated" {
			i.State, i.due = now, c.at.Add(s.opts.Lasts.Stop)
		}
		changes = append(changes, element{"item", "", []element{{"instanceId", "", i.ID}, {"currentState", "", state(i.State)}, {"previousState", "", state(was)}}})
	}
	return []element{{"instancesSet", "", changes}}, nil
}

func (s *Server) settleInstances(now time.Time) {
	for _, i := range s.instances {
		if i.due.IsZero() || now.Before(i.due) {
			continue
		}
		i.due = time.Time{}
		i.State = map[string]string{"stopping": "stopped", "shutting-down": "terminated"}[i.State]
	}
}

func (s *Server) createTags(c *call, in *form) (any, error) {
	ids, tags := in.list("ResourceId"), in.tags("Tag")
	if err := in.rest(); err != nil {
		return nil, err
	}
	all, err := s.chosen(c, ids)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(tags) == 0 {
		return nil, refuse("MissingParameter", "CreateTags needs a ResourceId and a Tag")
	}
	for _, i := range all {
		fresh := map[string]string{}
		for _, key := range sorted(i.Tags) {
			fresh[key] = i.Tags[key]
		}
		for _, t := range tags {
			fresh[t.Key] = t.Value
		}
		i.Tags = fresh
	}
	return []element{{"return", "", true}}, nil
}

func (s *Server) describeEndpoints(c *call, in *form) (any, error) {
	q, err := in.query("VpcEndpointId")
	if err != nil {
		return nil, err
	}
	if q.limit != nil || q.token != "" {
		return nil, refuse("InvalidParameterValue", "this fake answers DescribeVpcEndpoints in one page")
	}
	var items []element
	for _, e := range s.endpoints {
		if e.Region != c.region || (q.ids != nil && !slices.Contains(q.ids, e.ID)) {
			continue
		}
		has := map[string]string{"vpc-id": e.VPC, "service-name": e.Service, "vpc-endpoint-type": e.Type, "vpc-endpoint-state": "available"}
		passes := true
		for name, values := range q.filters {
			value, ok := has[name]
			if !ok {
				return nil, refuse("InvalidParameterValue", "this fake knows no filter %s", printable(name))
			}
			passes = passes && slices.ContainsFunc(values, func(v string) bool { return wild(v, value) })
		}
		if passes {
			items = append(items, element{"item", "", []element{{"vpcEndpointId", "", e.ID}, {"vpcEndpointType", "", e.Type}, {"vpcId", "", e.VPC},
				{"serviceName", "", e.Service}, {"state", "", "available"}, {"ownerId", "", Account}}})
		}
	}
	return []element{{"vpcEndpointSet", "", items}}, nil
}

// touchedInstances are those that a call names.
func (s *Server) touchedInstances(c *call) (all []thing) {
	if strings.HasPrefix(c.operation, "Describe") {
		return []thing{{arn: "*"}}
	}
	in := &form{c, map[string]bool{}}
	for _, id := range append(in.list("InstanceId"), in.list("ResourceId")...) {
		t := thing{arn: s.arn(c, "instance/"+id)}
		for _, i := range s.instances {
			for _, key := range sorted(i.Tags) {
				if i.ID == id {
					t.Tags = append(t.Tags, tag{key, i.Tags[key]})
				}
			}
		}
		all = append(all, t)
	}
	return all
}
