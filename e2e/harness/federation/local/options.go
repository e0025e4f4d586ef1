// Package local runs a federation as processes of this machine: for each cluster a real etcd, kube-apiserver and
// kube-controller-manager, and for workers kube-scheduler and kwok, on free ports of the loopback interface.
package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// BinariesVariable names the environment variable that lists, as PATH does, the directories of the components'
// programs. make sets it.
const BinariesVariable = "BREAKWATER_BINARIES"

// Options configure a federation.
type Options struct {
	// Binaries are the directories with the programs. The first that has a program takes precedence.
	Binaries []string
	// Dir is the directory for data, logs and kubeconfigs. Start first removes files of an earlier federation. Empty: a
	// temporary directory that Stop removes.
	Dir string
	// Log receives progress messages.
	Log logr.Logger
	// WithoutControllers runs only etcd and kube-apiserver: an API without controllers.
	WithoutControllers bool
	// APIServerArguments are added to the flags of every kube-apiserver, for example --request-timeout=5s.
	APIServerArguments []string
	// APIServerArgumentsOf returns additional flags of one cluster's kube-apiserver, each time that it starts. nil adds none.
	APIServerArgumentsOf func(federation.ClusterSpec) []string
	// EtcdArguments returns additional flags of a cluster's etcd. nil adds none.
	EtcdArguments func(federation.ClusterSpec) []string
	// Timeout bounds the start. 0 means two minutes.
	Timeout time.Duration
	// Grace is how long Stop waits for one component before it kills it. 0 means five seconds.
	Grace time.Duration
}

func (o *Options) setDefaults() {
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Minute
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
}

// componentsOf lists the components of a cluster in the order of their start.
func (o *Options) componentsOf(spec federation.ClusterSpec) []federation.Component {
	components := []federation.Component{federation.Etcd, federation.APIServer}
	if o.WithoutControllers {
		return components
	}
	components = append(components, federation.ControllerManager)
	if spec.HasRole(federation.Worker) {
		components = append(components, federation.Scheduler, federation.Kwok)
	}
	return components
}

// programs finds the program of each component that the topology needs. Its error names all that are missing.
func (o *Options) programs(topology *federation.Topology) (map[federation.Component]string, error) {
	found := map[federation.Component]string{}
	var missing []error
	for _, spec := range topology.Clusters {
		for _, component := range o.componentsOf(spec) {
			if _, done := found[component]; done {
				continue
			}
			path, ok := FindProgram(o.Binaries, string(component))
			if !ok {
				missing = append(missing, fmt.Errorf("%s is not in any of the directories %q", component, o.Binaries))
			}
			found[component] = path
		}
	}
	if err := errors.Join(missing...); err != nil {
		return nil, fmt.Errorf("%w\nbuild the control planes with `make federation-up`, or set %s (or --binaries) to "+
			"their directories, separated as in PATH", err, BinariesVariable)
	}
	return found, nil
}

// FindProgram returns the path of a program in the first directory that has it.
func FindProgram(folders []string, name string) (string, bool) {
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		path, err := filepath.Abs(filepath.Join(folder, name))
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

// BuiltProgram finds a program that make built, in the directories of BinariesVariable.
func BuiltProgram(name string) (string, error) {
	path, ok := FindProgram(filepath.SplitList(os.Getenv(BinariesVariable)), name)
	if !ok {
		return "", fmt.Errorf("%s is not in any directory of %s: run this with make, which builds it", name, BinariesVariable)
	}
	return path, nil
}
