// Package demo shows what Breakwater is for: the same deletion storm twice on real control planes, first without Breakwater and
// then with it.
package demo

import (
	"errors"
	"fmt"
)

// Options are the settings that a user can choose.
type Options struct {
	// Pods is the application's number of pods over all workers, Floor how many must stay available.
	Pods, Floor int
	// Clients is how many clients delete at random.
	Clients int
	// Seed determines the random draws.
	Seed uint64
	// Keep leaves everything running after the report until ctx ends.
	Keep bool
	// ReportDir is the directory for the report. It is created if it does not exist.
	ReportDir string
	// Binaries are the directories of the control planes' programs.
	Binaries []string
	// Program is the path of breakwater.
	Program string
	// Version is the version of Program.
	Version string
}

const (
	maxPods    = 1000
	maxClients = 1000
	// minPods gives each Deployment of each of two workers a pod.
	minPods = 4
)

// Validate returns an error for each flag with an invalid value.
func (o Options) Validate() error {
	var all []error
	if o.Pods < minPods || o.Pods > maxPods {
		all = append(all, fmt.Errorf("--pods %d: want from %d to %d", o.Pods, minPods, maxPods))
	}
	switch {
	case o.Floor < 1:
		all = append(all, fmt.Errorf("--floor %d: want at least 1: a floor of 0 protects nothing", o.Floor))
	case o.Floor >= o.Pods:
		all = append(all, fmt.Errorf("--floor %d: want less than --pods (%d): without budget every removal is denied, "+
			"and the demo cannot show that budget can be consumed", o.Floor, o.Pods))
	}
	if o.Clients < 1 || o.Clients > maxClients {
		all = append(all, fmt.Errorf("--clients %d: want from 1 to %d", o.Clients, maxClients))
	}
	if o.ReportDir == "" {
		all = append(all, errors.New("--report-dir: want a directory for the report"))
	}
	if len(o.Binaries) == 0 {
		all = append(all, errors.New("--binaries: want the directories of the control planes' programs; "+
			"`make demo` builds them and sets the flag"))
	}
	return errors.Join(all...)
}
