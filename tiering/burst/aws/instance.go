package aws

import (
	"context"
	"net/url"
	"time"

	"datamove.dev/tiering/burst"
)

// Instance is one of EC2.
type Instance struct {
	ID, Type, State string // pending, running, shutting-down, terminated, stopping or stopped
	Since           time.Time
	Tags            map[string]string
}

// describeInstances and stopInstances are what is read of the replies of these operations.
type describeInstances struct {
	Instances []struct {
		ID    string    `xml:"instanceId"`
		Type  string    `xml:"instanceType"`
		State string    `xml:"instanceState>name"`
		Since time.Time `xml:"launchTime"`
		Tags  []struct {
			Key   string `xml:"key"`
			Value string `xml:"value"`
		} `xml:"tagSet>item"`
	} `xml:"reservationSet>item>instancesSet>item"`
	NextToken string `xml:"nextToken"`
}

type stopInstances struct {
	IDs []string `xml:"instancesSet>item>instanceId"`
}

// Instances are those that have the tag of a burst, and are not gone.
func (a *Account) Instances(ctx context.Context) (all []Instance, err error) {
	form := url.Values{"Filter.1.Name": {"tag-key"}, "Filter.1.Value.1": {burst.TagBurst}, "Filter.2.Name": {"instance-state-name"},
		"Filter.2.Value.1": {"pending"}, "Filter.2.Value.2": {"running"}, "Filter.2.Value.3": {"stopping"}, "Filter.2.Value.4": {"stopped"}}
	more := true
	err = a.pages("instances", func() bool { return more }, func() error {
		var page describeInstances
		if err := a.ec2.call(ctx, "DescribeInstances", form, &page); err != nil {
			return err
		}
		for _, i := range page.Instances {
			if !instanceForm().MatchString(i.ID) {
				return odd("an instance %q", i.ID)
			}
			one := Instance{ID: i.ID, Type: i.Type, State: i.State, Since: i.Since, Tags: make(map[string]string, len(i.Tags))}
			for _, t := range i.Tags {
				one.Tags[t.Key] = t.Value
			}
			all = append(all, one)
		}
		form.Set("NextToken", page.NextToken)
		more = page.NextToken != ""
		return nil
	})
	return all, err
}

// Stop stops an instance, which can be started again; one that can not be stopped (spot instances, those with local disks as their root) is told of.
func (a *Account) Stop(ctx context.Context, id string) error {
	var stops stopInstances
	err := a.ec2.call(ctx, "StopInstances", url.Values{"InstanceId.1": {id}}, &stops)
	if err == nil && (len(stops.IDs) != 1 || stops.IDs[0] != id) {
		err = odd("%d instances stop", len(stops.IDs))
	}
	return a.failed("stop", id, err)
}
