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

// BinariesVariable names the environment variable that lists, as PATH does, the folders of the components'
// programs. make sets it.
const BinariesVariable = "BREAKWATER_BINARIES"

// Options say how to start a federation.
type Options struct {
	// Binaries are the folders to look for programs in; the first that has one wins.
	Binaries []string
	// Dir keeps data, logs and kubeconfigs. What an ended federation left there is removed first. Empty: a
	// temporary folder that Stop removes.
	Dir string
	// Log gets the progress.
	Log logr.Logger
	// WithoutControllers runs etcd and kube-apiserver alone: an API and nothing that acts on it.
	WithoutControllers bool
	// APIServerArguments are added to the flags of every kube-apiserver, for example --request-timeout=5s.
	APIServerArguments []string
	// APIServerArgumentsOf gives flags that are added to those of one cluster's kube-apiserver, each time that it starts. nil gives none.
	APIServerArgumentsOf func(federation.ClusterSpec) []string
	// EtcdArguments gives flags that are added to those of a cluster's etcd. nil gives none.
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

// componentsOf lists what a cluster runs, in the order of starting.
func (o *Options) componentsOf(spec federation.ClusterSpec) []federation.Component {
	components := []federation.Component{federation.Etcd, federation.APIServer}
	if o.WithoutControllers {
		return components
	}
	components = append(components, federation.ControllerManager)
	if spec.Is(federation.Worker) {
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
				missing = append(missing, fmt.Errorf("%s is in none of the folders %q", component, o.Binaries))
			}
			found[component] = path
		}
	}
	if err := errors.Join(missing...); err != nil {
		return nil, fmt.Errorf("%w\nbuild the control planes by `make federation-up`, or set %s (or --binaries) to "+
			"the folders that hold them, separated as in PATH", err, BinariesVariable)
	}
	return found, nil
}

// FindProgram gives the path of a program in the first folder that has it.
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

// BuiltProgram finds a program that make has built, in the folders of BinariesVariable.
func BuiltProgram(name string) (string, error) {
	path, ok := FindProgram(filepath.SplitList(os.Getenv(BinariesVariable)), name)
	if !ok {
		return "", fmt.Errorf("%s is in none of the folders of %s: run this by make, which builds it", name, BinariesVariable)
	}
	return path, nil
}
