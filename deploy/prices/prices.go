// Package prices has the price books that come with the program: files, one for each region, each with the day and the source of its figures.
package prices

import "embed"

// Books are REGION.yaml.
//
//go:embed *.yaml
var Books embed.FS
