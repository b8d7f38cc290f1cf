package burst

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// residencyForm is a region of AWS, or its beginning up to a hyphen.
var residencyForm = mover.Pattern(`^[a-z]{2}(-[a-z]{2,12}){0,2}(-[1-9][0-9]?)?$`)

// Resides is mover.ErrRefused where what may be in some regions only, as its labels say, is to be in another one. No label is any region.
//
// A label is a region, or its beginning: eu has eu-central-1, and us has neither us-gov-west-1 nor us-iso-east-1, which are other partitions of AWS.
func Resides(what string, labels []string, region string) error {
	if len(labels) == 0 || slices.ContainsFunc(labels, func(l string) bool { return within(l, region) }) {
		return nil
	}
	return fmt.Errorf("%w: %s may be in %s only, and %s is not there; choose another region, or have the owner of the data say so", mover.ErrRefused, what, strings.Join(labels, ", "), region)
}

func within(label, region string) bool {
	rest, is := strings.CutPrefix(region, label)
	return is && (rest == "" || rest[0] == '-') && !apartForm().MatchString(rest)
}

// apartForm is in what a region has behind its label when it is in another partition: AWS for governments, and what is not joined to the internet.
var apartForm = mover.Pattern(`^-(gov|iso[a-z]*)(-|$)`)

// Residency is that of all data of a burst.
func (b *Burst) Residency() error {
	for _, d := range b.Spec.Data {
		if err := Resides(d.From, d.Residency, b.Spec.Cloud.Region); err != nil {
			return err
		}
	}
	return nil
}
